#ifndef PREESM_H
#define PREESM_H

#define IN
#define OUT

#endif
