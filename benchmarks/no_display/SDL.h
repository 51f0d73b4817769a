/* Stands in for SDL 2, SDL_ttf and SDL_image where there is no display: every call succeeds, nothing is drawn, no event
   comes, and pictures are grey. It has what programs of preesm-apps call. */
#ifndef NO_DISPLAY_SDL_H
#define NO_DISPLAY_SDL_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef uint8_t Uint8;
typedef uint16_t Uint16;
typedef uint32_t Uint32;
typedef int SDL_TimerID, SDL_RendererFlip;
typedef struct { Uint8 r, g, b, a; } SDL_Color;
typedef struct { int x, y; } SDL_Point;
typedef struct { int x, y, w, h; } SDL_Rect;
typedef struct {
    Uint8 BitsPerPixel, BytesPerPixel, Rshift, Gshift, Bshift, Ashift;
    Uint32 Rmask, Gmask, Bmask, Amask;
} SDL_PixelFormat;
typedef struct { int w, h, pitch; void *pixels; SDL_PixelFormat *format; } SDL_Surface;
typedef struct { int w, h; } SDL_Texture, SDL_Window, SDL_Renderer, TTF_Font;
typedef struct {
    Uint32 type;
    struct { struct { int sym; } keysym; } key;
    struct { int event, data1, data2; } window;
} SDL_Event;
typedef int (*SDL_EventFilter)(void *, SDL_Event *);
typedef Uint32 (*SDL_TimerCallback)(Uint32, void *);

enum { SDL_INIT_TIMER = 1, SDL_INIT_VIDEO = 32, SDL_QUIT = 256, SDL_WINDOWEVENT = 512, SDL_KEYDOWN = 768,
       SDL_WINDOWEVENT_RESIZED = 5, SDL_WINDOW_SHOWN = 4, SDL_WINDOW_RESIZABLE = 32, SDL_WINDOWPOS_UNDEFINED = 0,
       SDL_RENDERER_ACCELERATED = 2, SDL_TEXTUREACCESS_STREAMING = 1, SDL_PIXELFORMAT_IYUV = 1,
       SDL_PIXELFORMAT_RGBA32 = 4, SDL_PIXELFORMAT_RGB888 = 5, SDL_FLIP_NONE = 0, SDLK_ESCAPE = 27 };

#define NO_DISPLAY static inline __attribute__((unused))

NO_DISPLAY int SDL_Init(Uint32 flags) { return (void)flags, 0; }
NO_DISPLAY void SDL_Quit(void) { }
NO_DISPLAY const char *SDL_GetError(void) { return "there is no display"; }
NO_DISPLAY SDL_Texture *no_display_box(int w, int h)
{
    SDL_Texture *box = (SDL_Texture *)malloc(sizeof *box);
    if (box)
        box->w = w, box->h = h;
    return box;
}
NO_DISPLAY SDL_Window *SDL_CreateWindow(const char *name, int x, int y, int w, int h, Uint32 flags)
{
    return (void)name, (void)x, (void)y, (void)flags, (SDL_Window *)no_display_box(w, h);
}
NO_DISPLAY void SDL_DestroyWindow(SDL_Window *window) { free(window); }
NO_DISPLAY void SDL_GetWindowSize(SDL_Window *window, int *w, int *h)
{
    *w = window->w;
    *h = window->h;
}
NO_DISPLAY SDL_Renderer *SDL_CreateRenderer(SDL_Window *window, int index, Uint32 flags)
{
    return (void)index, (void)flags, (SDL_Renderer *)no_display_box(window->w, window->h);
}
NO_DISPLAY void SDL_DestroyRenderer(SDL_Renderer *renderer) { free(renderer); }
NO_DISPLAY int SDL_SetRenderDrawColor(SDL_Renderer *to, Uint8 r, Uint8 g, Uint8 b, Uint8 a)
{
    return (void)to, (void)r, (void)g, (void)b, (void)a, 0;
}
NO_DISPLAY int SDL_RenderClear(SDL_Renderer *to) { return (void)to, 0; }
NO_DISPLAY int SDL_RenderCopy(SDL_Renderer *to, SDL_Texture *what, const SDL_Rect *from, const SDL_Rect *at)
{
    return (void)to, (void)what, (void)from, (void)at, 0;
}
NO_DISPLAY int SDL_RenderCopyEx(SDL_Renderer *to, SDL_Texture *what, const SDL_Rect *from, const SDL_Rect *at,
                                double angle, const SDL_Point *center, SDL_RendererFlip flip)
{
    return (void)to, (void)what, (void)from, (void)at, (void)angle, (void)center, (void)flip, 0;
}
NO_DISPLAY void SDL_RenderPresent(SDL_Renderer *to) { (void)to; }
NO_DISPLAY SDL_Texture *SDL_CreateTexture(SDL_Renderer *to, Uint32 format, int access, int w, int h)
{
    return (void)to, (void)format, (void)access, no_display_box(w, h);
}
NO_DISPLAY SDL_Texture *SDL_CreateTextureFromSurface(SDL_Renderer *to, SDL_Surface *from)
{
    return (void)to, no_display_box(from->w, from->h);
}
NO_DISPLAY int SDL_QueryTexture(SDL_Texture *what, Uint32 *format, int *access, int *w, int *h)
{
    if (format)
        *format = 0;
    if (access)
        *access = 0;
    if (w)
        *w = what->w;
    if (h)
        *h = what->h;
    return 0;
}
NO_DISPLAY int SDL_UpdateTexture(SDL_Texture *what, const SDL_Rect *at, const void *pixels, int pitch)
{
    return (void)what, (void)at, (void)pixels, (void)pitch, 0;
}
NO_DISPLAY int SDL_UpdateYUVTexture(SDL_Texture *what, const SDL_Rect *at, const Uint8 *y, int yw, const Uint8 *u,
                                    int uw, const Uint8 *v, int vw)
{
    return (void)what, (void)at, (void)y, (void)yw, (void)u, (void)uw, (void)v, (void)vw, 0;
}
NO_DISPLAY void SDL_DestroyTexture(SDL_Texture *what) { free(what); }
NO_DISPLAY SDL_Surface *SDL_CreateRGBSurface(Uint32 flags, int w, int h, int depth, Uint32 r, Uint32 g, Uint32 b, Uint32 a)
{
    static SDL_PixelFormat format = { 32, 4, 0, 8, 16, 24, 0xff, 0xff00, 0xff0000, 0xff000000 };
    SDL_Surface *made = (SDL_Surface *)malloc(sizeof *made);
    (void)flags, (void)depth, (void)r, (void)g, (void)b, (void)a;
    if (!made)
        return NULL;
    made->w = w;
    made->h = h;
    made->pitch = 4 * w;
    made->format = &format;
    made->pixels = malloc((size_t)w * (size_t)h * 4);
    if (made->pixels)
        memset(made->pixels, 128, (size_t)w * (size_t)h * 4);
    return made;
}
NO_DISPLAY SDL_Surface *SDL_ConvertSurfaceFormat(SDL_Surface *from, Uint32 format, Uint32 flags)
{
    return (void)format, SDL_CreateRGBSurface(flags, from->w, from->h, 32, 0, 0, 0, 0);
}
NO_DISPLAY int SDL_LockSurface(SDL_Surface *what) { return (void)what, 0; }
NO_DISPLAY void SDL_UnlockSurface(SDL_Surface *what) { (void)what; }
NO_DISPLAY void SDL_FreeSurface(SDL_Surface *what)
{
    if (what)
        free(what->pixels);
    free(what);
}
NO_DISPLAY int SDL_PollEvent(SDL_Event *event) { return (void)event, 0; }
NO_DISPLAY void SDL_SetEventFilter(SDL_EventFilter filter, void *data) { (void)filter, (void)data; }
NO_DISPLAY SDL_TimerID SDL_AddTimer(Uint32 ms, SDL_TimerCallback call, void *data)
{
    return (void)ms, (void)call, (void)data, 1;
}
NO_DISPLAY int SDL_RemoveTimer(SDL_TimerID timer) { return (void)timer, 1; }
NO_DISPLAY void SDL_Delay(Uint32 ms) { (void)ms; }

NO_DISPLAY int TTF_Init(void) { return 0; }
NO_DISPLAY void TTF_Quit(void) { }
NO_DISPLAY const char *TTF_GetError(void) { return SDL_GetError(); }
NO_DISPLAY TTF_Font *TTF_OpenFont(const char *file, int size) { return (void)file, (TTF_Font *)no_display_box(size, size); }
NO_DISPLAY void TTF_CloseFont(TTF_Font *font) { free(font); }
NO_DISPLAY SDL_Surface *TTF_RenderText_Blended(TTF_Font *font, const char *text, SDL_Color color)
{
    return (void)color, SDL_CreateRGBSurface(0, font->w * (int)(strlen(text) + 1), font->h, 32, 0, 0, 0, 0);
}

NO_DISPLAY SDL_Surface *IMG_Load(const char *file) { return (void)file, SDL_CreateRGBSurface(0, 640, 480, 32, 0, 0, 0, 0); }
NO_DISPLAY const char *IMG_GetError(void) { return SDL_GetError(); }

#endif
