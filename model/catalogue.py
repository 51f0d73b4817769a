"""Every diagnostic code with its title and its meaning, for `flowc explain` and
docs/generated/diagnostics.md.
"""

CODES: dict[str, tuple[str, str]] = {
    # -- the text ----------------------------------------------------------------------------------
    "F001": (
        "the text does not follow the grammar",
        "The message names the construct that was open and what may follow. Each declaration is parsed on its own: a fault in one does not hide those of the others.",
    ),
    "F002": ("the file cannot be read", "The path does not exist, or reading it is not permitted."),
    "F003": (
        "the file is not a text",
        'A .flow file is UTF-8 text. An ONNX file is named inside one: `network Name from "file.onnx"`.',
    ),
    "F004": (
        "the file declares nothing",
        "A text needs at least one declaration; to run, it needs an `app`.",
    ),
    "F005": ("files use each other in a circle", "Move what both need into a third file."),
    "F006": (
        "an included file cannot be read",
        "Paths in `use` are relative to the file that contains the `use`.",
    ),
    # -- names, values, types ----------------------------------------------------------------------
    "F101": (
        "a name is not declared",
        "Order does not matter, but every name must be declared in this file or in one that it names with `use`.",
    ),
    "F102": (
        "two things have one name",
        "Constants, types, tasks, networks, graphs, apps and platforms share one name space; instances and ports have one per block.",
    ),
    "F103": ("a name denotes another kind of thing", "For example a task where a type is needed."),
    "F104": (
        "a unit is missing or wrong",
        "Time: ns us ms s min. Frequency: Hz kHz MHz GHz. Memory: B kB MB GB KiB MiB GiB.",
    ),
    "F105": (
        "a value is out of its range",
        "Rates, dimensions and counts are positive, times are not negative, and some words come from a fixed list.",
    ),
    "F106": (
        "rate lists of a task differ in length",
        "Each entry of a rate list is one phase, and all ports of a task go through their phases together. A plain number holds in every phase.",
    ),
    "F107": (
        "a port never moves a token",
        "A rate of 0 is allowed in single phases, but not in all of them.",
    ),
    "F108": (
        "a parameter is missing, unknown or of the wrong type",
        'Parameters are typed (int, float, bool, string, file) and given by name: `camera: Camera(source = "demo")`.',
    ),
    "F109": (
        "a division leaves a remainder",
        "Shapes, rates, delays and the counts of `repeat` and `last` are integers; `/` must divide evenly there.",
    ),
    "F110": (
        "a constant or type depends on itself",
        "Constants and types may refer to each other, but not in a circle.",
    ),
    "F113": ("a graph contains itself", "Composites are flattened, so they cannot be recursive."),
    "F114": (
        "a language or kind of processor is unknown",
        "Languages: python and c on a cpu, cuda on a gpu. Kinds of processors: cpu, gpu, dla.",
    ),
    "F115": ("a clause is repeated", "Each clause may occur once."),
    # -- the graph ---------------------------------------------------------------------------------
    "F201": (
        "an input is fed twice",
        "A channel joins one output to one input. Outputs may fan out; inputs have one source.",
    ),
    "F202": (
        "an input is never fed",
        "Every input needs an arrow; a task without inputs is a source.",
    ),
    "F203": (
        "rates cannot balance",
        "Along every path between two tasks the ratio of their firings must be the same; otherwise tokens accumulate or run out. The message shows two paths that disagree.",
    ),
    "F204": (
        "tasks wait for each other",
        "Every cycle needs initial tokens (`delay n`); without them, no task on it can fire first.",
    ),
    "F205": (
        "types of an arrow differ",
        "The dtype and shape of a token must agree at both ends. Rates may differ; they count tokens.",
    ),
    "F206": (
        "it is not clear which port is meant",
        "An arrow without a port name takes the one port that is still free.",
    ),
    "F207": ("there is no such port", "The message lists the existing ports."),
    "F208": ("an output is not read", "Its tokens are discarded. This is a warning."),
    "F209": (
        "an arrow points the wrong way",
        "An arrow leads from an output to an input; inside a graph, from its `in` ports and to its `out` ports.",
    ),
    "F210": (
        "a clause on an arrow does not fit",
        "A delay is placed between two instances and has no value, one value for all tokens, or one for each. `repeat` and `last` are placed between two instances of one app.",
    ),
    "F211": (
        "the period is too short for a task",
        "Firings of a task that keeps state run one after another, so their sum must fit into one period.",
    ),
    "F212": (
        "arrays do not fit together",
        "Arrays of instances are connected element by element, or element by index.",
    ),
    "F213": (
        "deadlock is not decided",
        "One iteration of a cycle has too many firings to simulate it. This is a warning.",
    ),
    "F214": (
        "a chain continues after a fan-out",
        "`a -> b, c` ends a chain: it would not be clear which of them continues it.",
    ),
    "F216": (
        "a deadline cannot be kept on any mapping",
        "Firings of a source are released evenly over the period, and the firings on one path run one after another. Together they take longer than the deadline (the period where no deadline is given). The deadline of a path counts from the release of its newest data.",
    ),
    "F223": (
        "a share cannot be kept, or has no meaning",
        "An app without a period may have a share of its CPUs, where other apps have periods. What it used is looked at between its firings, so that none of them may wait for data from outside, use several threads or another process. Shares of one CPU are less than all of it.",
    ),
    "F215": (
        "an app is empty, or there is none",
        "Something to run is an app with at least one instance.",
    ),
    # -- task code ---------------------------------------------------------------------------------
    "F301": ("a file does not exist", "Paths are relative to the .flow file that contains them."),
    "F302": (
        "a file has no such function or class",
        'Code is named as "file:name". Python files are parsed, never run, to check this.',
    ),
    "F303": (
        "a function cannot be called as a firing",
        "A firing passes the inputs in port order, then the parameters it accepts by name. A class takes parameters in `__init__` and inputs in `__call__`.",
    ),
    "F304": (
        "a function cannot keep state",
        "State lives in a class (Python) or behind the state pointer (C).",
    ),
    "F305": (
        "a Python file has a syntax error",
        "It is parsed by the version of Python that runs flowc.",
    ),
    "F306": (
        "a C file does not compile",
        "The compiler's output follows. `flowc headers` writes the prototypes.",
    ),
    "F307": (
        "there is no compiler",
        "C tasks are compiled at build time with `cc`, or with the compiler that the variable CC names. Programs in C++ (`--target native`) also need `g++` and `objcopy`, and `ld` where tasks are in C++: CXX, OBJCOPY and LD name others.",
    ),
    "F308": (
        "names of local modules conflict",
        "Modules that a task imports from its own folder are copied into the build and imported by name: only one folder may use a name, and names of Python's own modules are not allowed.",
    ),
    "F309": (
        "a kernel cannot be launched like this",
        'A kernel has C linkage (`extern "C"`), a grid and a block within the limits of GPUs, and arguments that fit its parameters: ports, `scratch` and `state` are pointers, parameters and numbers are values. Without a list it gets inputs, outputs and parameters, in this order.',
    ),
    "F310": (
        "a .cu file does not compile",
        "With the extra `cuda`, kernels are compiled for the platform's GPU when a program is built. The compiler's output follows.",
    ),
    # -- networks ----------------------------------------------------------------------------------
    "F401": ("a network file is missing", "The path is relative to the .flow file."),
    "F402": (
        "a network file is damaged",
        "It is not an ONNX file, it is truncated, or its graph is inconsistent. What other tools write is named, with the converter that helps.",
    ),
    "F403": (
        "a dimension of a network is not fixed",
        'Channels have fixed shapes. Fix the first dimension with `batch 1`, any other by declaring the port with its type, or at the tensor: `from "x" [1, 3, 48, 320]`. An output whose size depends on data needs a `post` that gives it a fixed size.',
    ),
    "F404": (
        "a network stays in one piece",
        "What has control flow (If, Loop, Scan), lists of tensors, operators of its own or sizes that vary runs whole on a CPU, as it was exported: it has no cuts, no rows, no other precision and no place on a GPU or DLA. Where inputs decide the control flow, make them constants: `in NAME = VALUE`.",
    ),
    "F405": ("there is no such tensor", "Ports name the tensors of the ONNX file with `from`."),
    "F217": (
        "a clause does not apply to that task",
        "Only a source can be `live` or drop unread frames, which it writes at one rate; only a single task has `every`. `on error` takes `stop`, `skip` and `restart`; a frame can be skipped only if no cycle passes its loss on.",
    ),
    "F218": (
        "the periods of sources do not agree",
        "The rates fix the ratios between the firings of all sources: `every` of one source determines the period of the app and of each other source.",
    ),
    "F219": (
        "there is no such path",
        "A deadline from one task to another needs a path of arrows between them, within an app or over `latest` and `drop oldest` from another one. `latest` and `drop oldest` join two apps: they follow a task of another app, and not the output of a `repeat` or `last` in that app.",
    ),
    "F220": (
        "a task needs tokens that may be missing",
        "Where a port writes `up to` so many tokens, those that are not there are left out: a task behind it fires once for each token that is there, and a port with `up to` reads them all. A delay, a window, `repeat`, `last`, phases and rates above 1 need a fixed number.",
    ),
    "F221": (
        "counts do not agree",
        "Tokens that are read together have the same count: they come from ports of one task with the same name behind `by`. A port that reads `up to` has as many as the firing before has written at most.",
    ),
    "F222": (
        "that code cannot have a count",
        "Ports with `up to` are lists, which only tasks in Python read and write. Tasks between them may be in C, or networks.",
    ),
    "F229": (
        "requests cannot be taken in batches",
        "An app with `batch up to N within T` takes requests at its open ends: up to N that come within T of the first one are one iteration, and its tasks fire for each. It has no period and no deadlines, and one token of each request at each open end.",
    ),
    "F230": (
        "a task fires in bursts",
        "An input of a task has data early, and another one gets newer data of the same source only after several of its firings: the task then fires several times in a row. A deadline counts from the newest data, so it does not show that the older ones have waited longer. Initial tokens of a `delay` on the slow way let the task fire with each sample. This is a warning.",
    ),
    "F224": (
        "a token of varying size has no place there",
        "A dimension `up to` gives each token a size of its own. Tasks in Python read and write such tokens. A delay, a window and `latest` begin with zeros, and zeros need a size. A network has such inputs where its file leaves the size open, and outputs where its sizes follow; batches, other precisions, variants and libraries for C need fixed sizes.",
    ),
    "F406": (
        "a declared type differs from the network's",
        "Either the declaration is wrong, or a `pre` or `post` function has to convert the data.",
    ),
    "F407": (
        "external weights are missing or outside",
        "External data of an ONNX file must exist below the file's folder.",
    ),
    "F408": (
        "a tensor type is not supported",
        "Channels carry numpy arrays: tensors of numeric or boolean types. Outputs of other types are cut off, unless a port names them; of a `ZipMap`, the rows that it was given stay.",
    ),
    "F409": (
        "a batch does not fit the network",
        "Grouping firings needs a dynamic first dimension.",
    ),
    "F410": (
        "calibration data do not fit",
        "int8 needs samples of the inputs: `.npy` files for one input, `.npz` files with an array per input, with the shapes and types of the network.",
    ),
    "F411": (
        "a network cannot be quantized",
        "It is quantized already, has no layer that can run in 8 bits, or ONNX Runtime rejects it.",
    ),
    "F412": (
        "a constant does not fit an input",
        "`in NAME = VALUE` makes an input of the file a constant: one value fills it, or all of them stand in brackets, of the input's type.",
    ),
    "F413": (
        "operators of a network are not known",
        "ONNX Runtime has those of ONNX and its own. Others come in a shared library with a function `RegisterCustomOps`, which `library` names; it is copied into builds.",
    ),
    "F414": (
        "places of layers cannot be read",
        "`--places` names a JSON file that has the layers of an `.onnx` network by processor, or their times in ns by processor and layer.",
    ),
    "F415": (
        "a batch has no effect",
        "`batch` groups firings of one iteration. Where a network fires once in an iteration, because the ports before and behind it have rate 1, there is nothing to group. Rates above 1, lists and `batch up to` in an app with open ends give it several firings. This is a warning.",
    ),
    # -- platforms and mappings --------------------------------------------------------------------
    "F501": (
        "there is no such processor",
        "Processors are named `pool[index]`, or `pool` when declared without a count.",
    ),
    "F502": (
        "a pin names no task",
        "Tasks are named `App.instance`, inside composites `App.graph.instance`.",
    ),
    "F503": ("a task cannot run on that kind of processor", "It has no implementation for it."),
    "F504": (
        "a task cannot be shared by several processors",
        "Only stateless tasks may run several iterations at once.",
    ),
    "F505": (
        "this pin is not supported yet",
        "Pins of whole tasks to processors are supported; others are rejected, never ignored.",
    ),
    "F506": (
        "there is no such platform",
        "Platforms are declared in the text or in the file given with `--platform`, or are built in (`host`).",
    ),
    "F510": (
        "this cannot run on a DLA, on an NPU, or on a GPU with TensorRT",
        "TensorRT's parser does not take every layer for a GPU. A DLA runs only certain layers, in fp16 or int8, with fixed shapes. TensorRT 11.0 to 11.3 do not support it, and a board holds a limited number of its engines. An NPU runs what its engine offers, in the precisions that it has; RKNN has three cores, and runs a network in 8 bits whole. `flowc show --platform` lists the layers that prevent it; with `fallback gpu` behind a pin to a DLA the GPU runs them.",
    ),
    # -- building ----------------------------------------------------------------------------------
    "F511": (
        "a network needs more memory than its pin allows",
        "Its weights, the buffers between its layers, and the memory of its sessions exceed `memory` behind the pin; bands of rows may need less.",
    ),
    "F512": (
        "the memory of a task is not known",
        "`memory` behind a pin is for networks on CPUs with fixed sizes.",
    ),
    "F513": (
        "networks do not fit into the memory of a device",
        "TensorRT's own memory, the weights of its engines and the arenas that contexts share between layers exceed `memory` of the GPU's pool. Each of `streams` has an arena of its own; tokens are not counted.",
    ),
    "F521": (
        "networks do not fit into the memory",
        "Weights, buffers between layers, and tokens exceed `memory` of the platform or `--memory`. The message gives what is needed and what there is; that of `map` also names the layers that determine it.",
    ),
    "F522": (
        "there is no such tensor",
        "`until` and `keep` of bands name tensors that layers of the network produce; `flowc analyze NET.onnx --memory` lists suitable ones.",
    ),
    "F523": (
        "bands cannot end or keep there",
        "Bands and their units end with a tensor that exists at run time: not inside layers that are fused into one kernel, from front to back. Each unit produces one tensor that is used outside it.",
    ),
    "F524": (
        "two limits on memory",
        "`--memory` allows more than `memory` of the platform, less 50 MB for Python and libraries: the smaller limit applies.",
    ),
    "F525": (
        "a layer cannot be computed row by row",
        "The first row of its result needs all rows of its input, or the layer contains the height as a constant. Bands have to end before it.",
    ),
    "F526": (
        "bands have too many or too few rows",
        "Rows are those of the tensor with which the bands end. There are at most as many as it has; with too few there would be too many bands.",
    ),
    "F527": (
        "this cannot be split into bands",
        "Bands are for networks on CPUs with one image of fixed size per firing and without `adapt`.",
    ),
    "F528": (
        "a processor belongs to no machine",
        "A platform has either processors of its own, or machines that have them: not both.",
    ),
    "F529": (
        "a link does not join two machines",
        "`link front back 110 MB/s 0.3 ms` is declared beside the machines, once for each pair: its bandwidth in each direction, and the fixed time of a transfer.",
    ),
    "F530": (
        "no link joins two machines",
        "Tasks on two machines exchange tokens over a link between these two; a third machine does not forward them.",
    ),
    "F531": (
        "a task is shared by several machines",
        "Processors of one machine may share the firings of a task, those of several machines may not.",
    ),
    "F532": (
        "this cannot cross between machines",
        "Tokens whose size depends on data, a cut that moves, and `drop oldest` or `latest` between apps stay on one machine.",
    ),
    "F533": (
        "a scenario does not run on several machines",
        "All machines would have to change states at the same frame.",
    ),
    "F534": (
        "a link is too slow",
        "The tokens of a period take longer than the period to transfer; apps without a period wait for the link instead.",
    ),
    "F535": (
        "messages of a robot have no such type",
        "An open end becomes an input or output of a node, and its tokens become messages: Arrow arrays with dora, which have no complex numbers; messages of `sensor_msgs` and `std_msgs` with ROS 2, which have neither complex numbers nor float16.",
    ),
    "F536": (
        "a name is not valid for a topic of ROS 2",
        "Names of topics, and of their parts, have no two underscores in a row.",
    ),
    "F537": (
        "a token is too large for a message of dora",
        "Messages through dora's daemon have at most 64 MiB, including their headers.",
    ),
    "F538": (
        "there is no such objective",
        "`--objective` takes a list of objectives, the most important one first. Which ones exist depends on whether all apps have periods: see docs/mapping.md.",
    ),
    "F540": (
        "a network cannot run on that engine",
        "`engine` behind a pin is for networks on CPUs; behind an `npu` of a platform it names what runs networks there. OpenVINO gets fixed sizes, and computes int64 in 32 bits and float64 in float32; ncnn has float32 alone, one sample at a time. Networks for which that matters stay on ONNX Runtime, and so do bands, cuts that move, and operators of a library.",
    ),
    "F541": (
        "an engine gives other results",
        "Before a network is built for another engine than ONNX Runtime, both run it on the same data, and their results are compared. With `within`, so are those of 8 bits and of 32.",
    ),
    "F542": (
        "a precision that is left open is not chosen",
        "`flowc map` chooses engines and precisions of networks where it can compare them: on this machine, without a limit on memory. Elsewhere `precision any` is that of the file. This is a warning.",
    ),
    "F543": (
        "types of processors do not fit",
        "A pool of processors is of the type that stands behind `type`, else of its own name: `cpu big[4]  cpu little[4]`. `wcet 2 ms on big, 5 ms on little` gives times by type, and `cpu big[4] on [4, 5, 6, 7]` the operating system's numbers of CPUs, each once. `speed` says how fast CPUs are beside the others of a platform.",
    ),
    "F544": (
        "a program does not share a GPU in slices of time",
        "With `scheduler time_slice`, each app is a process of its own on the GPU, as in programs that others have made: `map` and `check` bound these. A program of flowc uses a GPU from one process, where `fifo` or `priority` decide.",
    ),
    "F507": (
        "a network cannot be cut there",
        "Every stage but the last names its last layer with `until`, from front to back. Layers are called after their first output tensor.",
    ),
    "F508": (
        "a search does not support this",
        "JEDI's search, with both fine-tuners, and the balancing GA support throughput only; `auto`, `exact` and `comprehensive-ga` support latency and energy too. `scenario-ga` looks for the least energy alone, and `--evolution` is for genetic searches.",
    ),
    "F509": (
        "deadlines cannot be decided",
        "Every task needs a worst-case time on some processor of the platform, the work has to fit, and every cycle of an app with a period has to be fed by a task without inputs, which is released with it; then `flowc map` looks for a mapping that meets all deadlines.",
    ),
    "F601": (
        "a task has no code",
        "Abstract tasks can be checked and analyzed; to build them, each needs an implementation.",
    ),
    "F602": (
        "a port has no type",
        "Abstract ports can be analyzed; a program needs the types of its tokens. Open ends of an app always have a type.",
    ),
    "F603": (
        "no program can be written for this processor",
        'Tasks run on a CPU or, in CUDA, on a GPU; networks run anywhere, on a DLA with TensorRT, on an NPU with its engine. A platform declares its TensorRT: `tensorrt "10.3"`.',
    ),
    "F604": (
        "the output directory holds other files",
        "A rebuild replaces only files that flowc wrote there.",
    ),
    "F605": ("the output cannot be written", "The directory is unchanged."),
    "F606": (
        "the application failed while it was measured",
        "Measuring runs the tasks on real data; their output follows.",
    ),
    "F608": (
        "an option is not supported yet",
        "The program is correct without it. This is a warning.",
    ),
    "F607": (
        "a stored profile is not used",
        "It was measured on another machine, code has changed since, or it lacks some tasks."
        " This is a warning. A file of `profile --from` for another network is an error.",
    ),
    "F610": (
        "a task runs on a GPU only",
        "Code for a GPU can be run, measured and tested on a CPU when the task has an implementation for one, or a `reference`; without both this is an error. Where a platform has no GPU, the reference is used, with a warning.",
    ),
    "F609": (
        "a stored mapping is not used",
        "It was found for other code, other networks or other pins. This is a warning; `flowc map` finds a new one.",
    ),
    "F612": (
        "a network was not measured on an accelerator",
        "A search places tasks only where their times are known. The profile has no times of this network on the GPU or the DLAs of the platform, so it stays on the CPUs. This is a warning.",
    ),
    "F613": (
        "a firing took longer than the text says",
        "Proofs use the `wcet` of a pin or a task, not what was measured: where a run exceeded it, they may not hold on this machine. This is a warning.",
    ),
    "F614": (
        "times are estimated or not known",
        "With `--no-measure` nothing is run. A stored profile of another machine, or of code that has changed since, counts as an estimate; tasks without a known time count with the mean of the others. This is a warning.",
    ),
    "F615": (
        "an extra is not installed",
        "Plots need matplotlib (the extra `plots`), exact and genetic searches need OR-Tools and DEAP (`search`); `pip install 'flowc[all]'` has both. The language server needs pygls (`editor`), networks with `engine openvino` or `engine ncnn` the extra of that name, a program on several machines pyzmq (`machines`). The rest works without them.",
    ),
    "F616": (
        "a blocking source is not declared `live`",
        "A source that waits for a device or for others blocks its worker: finished results stay there until the next frame comes. `live` gives it a worker of its own. This is a warning.",
    ),
    "F617": (
        "an app with open ends does not run by itself",
        "A Python program writes to its `in` ports and reads from its `out` ports: `flowc.open(path)`, or the build as a package. `flowc test` and measuring feed it with random data.",
    ),
    "F618": (
        "this cannot be a Functional Mock-up Unit",
        "`--target fmu` makes a unit for co-simulation of one graph, or of an app with open ends: a step is an iteration, and time is simulation time. Tasks that wait for real time or for other apps, and types that FMI lacks, are not supported. The messages list all reasons.",
    ),
    "F619": (
        "the library of a Functional Mock-up Unit cannot be made",
        "The C code of all tasks becomes one library, so each function may exist once. Tasks in Python, networks, `repeat` and `last` need cffi (the extra `hopes`), and Python's header files and shared library where the unit is built; `--target native-fmu` needs none of these, but takes no tasks in Python.",
    ),
    "F620": (
        "a file of a run cannot be read",
        "`flowc report --run-file` reads the output of `flowc run --report`, `--trace-file` that of `flowc run --trace`.",
    ),
    "F621": (
        "a file of a run is about another program",
        "A report of a run and a trace name their build. Code, profile or mapping have changed since, or the build is of another text, so its numbers do not match the predictions: run it again.",
    ),
    "F622": (
        "a report cannot be compared with this",
        "`--compare` takes a stored mapping, another report (the page, or its JSON), or the directory of a build. Entries are compared by name.",
    ),
    "F623": (
        "a page cannot be served",
        "`flowc view` listens on this machine only, at a port that is free; without `--port` it picks one.",
    ),
    "F624": (
        "a time rests on few firings",
        "The first firing of a task is left out of a profile, as caches, buffers and threads make it slow; what is left are too few to decide by. `flowc profile` goes on for longer than it was asked to while tasks have fewer than five, within limits. This is a warning.",
    ),
    "F625": (
        "an app may be late with a worst case far above its mean",
        "A measured worst case is at least the longest firing that was seen. One firing that took more than ten times the mean was often delayed by something else on the machine, or did work that is done once. `map` names worst cases of more than a tenth of the deadline, `check` and `analyze` those that they count at every firing of an iteration, where a mapping counts successive firings. This is a warning; a `wcet` in the text replaces what was measured.",
    ),
    "F626": (
        "a task did not fire while it was measured",
        "What triggers it may be rare, or the stream may be too short. The task has no time: a mapping assumes the mean of the others, and no deadline is proved with it. This is a warning; `flowc profile --seconds N` measures for longer, and a `wcet` in the text states the time.",
    ),
    "F640": (
        "the board cannot be reached",
        "flowc uses the `ssh` of this machine, with its configuration and agent. It asks for no password and accepts no unknown key, so `ssh BOARD true` has to work without a prompt first.",
    ),
    "F641": (
        "the board lacks what programs need",
        "Python 3.8 or later with numpy, the inference library of the program, and a C compiler if there are tasks in C. `--board-python` names another Python, such as that of a virtual environment.",
    ),
    "F642": (
        "the board is in use",
        "Two measurements at the same time would disturb each other. The lock is released when the other one ends, however it ends.",
    ),
    "F643": (
        "the connection to the board was lost",
        "What ran there was stopped. An interrupted measurement is restarted if the board comes back within two minutes; a program run is not.",
    ),
    "F644": (
        "workers of a cluster have another flowc",
        "Another version may give other answers, or not understand the messages. Install the same flowc, with the same Python, for the scheduler's workers.",
    ),
    "F645": (
        "no scheduler, or one without workers",
        "`--cluster` takes the address of a Dask scheduler with workers: `dask scheduler`, then `dask worker tls://HOST:8786 --nthreads 1` for each core to be used. Certificates for `tls://` come from Dask's configuration.",
    ),
    "F646": (
        "workers are gone, or not protected by TLS",
        "The search continued here with what it had: dead workers cost time only. Messages of Dask carry code: without TLS, any process that can connect to a scheduler or a worker can run code there, and one that answers in its place can run code here.",
    ),
    "F647": (
        "workers have no effect here",
        "Searches without deadlines decide by running programs, one at a time, on the target machine. Workers are used where all apps have periods.",
    ),
    "F648": (
        "a mapping cannot be selected",
        "The page of `flowc view --edit` offers the configurations that the stored mapping keeps of its search. They became invalid with a later `map` or a change of the text.",
    ),
    "F649": (
        "two boards are one machine",
        "They were reached under two names. Runs at the same time would disturb each other.",
    ),
    "F650": (
        "the file of machines is faulty",
        '`--machines` takes a TOML file with a table for each machine of the platform: `here = true` or `board = "user@host"`, and optionally `address`, `port` and `python`.',
    ),
    "F651": (
        "a machine lacks what parts need",
        "Python 3.8 or later with numpy and pyzmq, and the libraries of its tasks. `python` in the file of machines names another Python.",
    ),
    "F652": ("the platform is one machine", "Parts are made for platforms that declare several."),
    "F653": (
        "a port is in use",
        "The file of machines names the port at which a part listens, and another process listens there. Without a port in the file, the part picks a free one.",
    ),
    "F654": (
        "a machine cannot resolve another one's name",
        "Names are looked up on the machine that connects. Where `--board` is a name of your ssh configuration, the other machines need an `address` that they can resolve.",
    ),
    "F655": (
        "boards are not of the same kind",
        "Measurements of several boards are compared: they must have the same CPU, GPU, Python, numpy, ONNX Runtime and TensorRT, and each is named once.",
    ),
    "F657": (
        "a board does not answer as expected",
        "Answers of a board are limited in size and in time, and checked. Another program writes among the answers, or a file or the output of a command is too large. Output of its shell before Python starts is shown, and does no harm.",
    ),
    "F658": (
        "deadlines are not looked at",
        "In a scenario, on several machines and within a limit on memory, deadlines are proved only where every app has a period. Elsewhere apps without one run below the others, and the deadlines of these are proved.",
    ),
    "F659": (
        "an app without a period is on a device without a queue",
        "On a CPU the threads of such an app run below all others. On a GPU or DLA with a static order, or with priorities, there is nothing below: apps with periods would pace it, or wait for it.",
    ),
    "F660": (
        "code in Python in a native program",
        "`--target native` makes a program in C++, which has no interpreter: its tasks are in C or C++. `flowc headers` writes their prototypes.",
    ),
    "F661": (
        "a native program cannot do this yet",
        "Native programs have tasks in C, C++ and CUDA, and networks, on one machine. The messages list all that a text has beside these; the program in Python does it all.",
    ),
    "F662": (
        "no app uses a task with C code",
        "`flowc headers` writes the prototypes of tasks in apps and graphs, where the values of their parameters are known: types and sizes may depend on these.",
    ),
    "F663": (
        "power cannot be measured",
        "`profile --power` and `--energy` need RAPL, the rails of a board (INA3221), or a command that prints watts. With a warning, a part was measured.",
    ),
    "F656": (
        "a worker of the cluster is gone",
        "Its work is repeated by the others, or here where none is left: that costs only time. Its own log has the reason.",
    ),
    "F611": (
        "there is no network to export",
        "`--target hopes-external` writes the networks of an application as a C library; tasks with code of their own are not exported.",
    ),
    # -- variants and scenarios --------------------------------------------------------------------
    "F801": (
        "a scenario has no initial state, or several",
        "The program begins in the one state that is `initial`.",
    ),
    "F802": (
        "a state is never reached",
        "No row of transitions leads from the initial state to it. This is a warning.",
    ),
    "F803": (
        "an app runs in no state",
        "With a scenario, apps run in the states that name them. This is a warning.",
    ),
    "F804": (
        "a variant cannot be selected",
        "A state selects, for apps that it runs, among the variants that a network declares.",
    ),
    "F805": (
        "variants of a network differ in their ports",
        "All variants of a network need the same ports with the same types; `pre` and `post` of a variant convert data that differ.",
    ),
    "F806": (
        "an event is never raised, or never used",
        "Events are declared by the scenario (raised from outside) or by a task, and are then named `App.task.event`. It is a warning if an event can never be raised in a state, or triggers no transition.",
    ),
    "F807": (
        "a task cannot raise an event",
        "Python code gets a function for each event as a keyword argument, a class in `__init__`. Code in C or CUDA, and code in a process of its own, cannot raise events.",
    ),
    "F808": (
        "transitions contradict each other",
        "An event, or the time in a state, leads from a state to one other state, and never to itself.",
    ),
    "F809": (
        "power values of a platform are inconsistent or missing",
        "Clock rates rise, and `idle` and `busy` have a value for each of them. Without both, energy is unknown and clock rates are not changed. It is a warning if an objective or a limit needs energy nevertheless.",
    ),
    "F810": (
        "a state exceeds its power limit",
        "By the model of the platform, even the clock rates that meet every deadline with the least power exceed the `power` of the state.",
    ),
    "F811": (
        "this cannot change while the program runs",
        "When a state is left, frames that have begun are completed. This is not possible for apps with open ends, apps that wait for tokens of others, and a cut that moves by itself. `at once` interrupts an inference: it is for states that differ in networks alone, which ONNX Runtime runs unsplit on CPUs.",
    ),
    "F812": (
        "a variant has no `accuracy`",
        "`= best` selects the most accurate variants that meet the deadlines, so all variants of the network need an `accuracy`.",
    ),
    "F813": (
        "a state has too many combinations of variants",
        "With `= best`, each combination of variants may have to be mapped. Networks whose variant is selected in the text do not count.",
    ),
    # -- other formats -----------------------------------------------------------------------------
    "F701": (
        "this is not an SDF3 graph",
        "An SDF3 file is XML: `sdf3` contains one `applicationGraph` with an `sdf` or a `csdf` graph. Scenario-aware graphs (`sadf`, `fsmsadf`) are not supported. Files with a document type are rejected, so that no entity is ever expanded or fetched.",
    ),
    "F702": (
        "an SDF3 graph is faulty",
        "Channels lead from an output to an input of existing actors, rates and times are numbers, and all lists of an actor have one length. All faults of a file are reported at once.",
    ),
    "F703": (
        "SDF3 has something that flowc does not",
        "The imported text is correct without it, but means less than the file, or something slightly different. This is a warning.",
    ),
    "F704": (
        "an app cannot be written as SDF3",
        "SDF3 has actors, rates, initial tokens and execution times; its files cannot express more.",
    ),
    "F705": (
        "this is not a JEDI configuration",
        'A configuration of JEDI is a file of libconfig: `configs = { instance_num = "1"; instances = ( { ... } ); }`. A setting that cannot be read does not hide the faults of others. `@include` is rejected, so that no other file is opened, and so are very large files.',
    ),
    "F706": (
        "a JEDI configuration is faulty",
        "Numbers are quoted, and the lists `devices`, `cut_points` and `dla_cores` have an entry for each of `device_num` stages. A cut point is the last layer of its stage, so they rise. All faults of a file are reported at once.",
    ),
    "F707": (
        "JEDI and flowc differ in meaning",
        "The output is correct, but means less, or something slightly different; or a value has to be filled in. This is a warning.",
    ),
    "F708": (
        "a mapping cannot be written for JEDI",
        "An instance of JEDI is one network whose stages run on one GPU and on DLAs. It has streams, buffers, and threads around the network; its files cannot express other options of a pin. A tensor may cross one cut only, as stages pass data only to the next one.",
    ),
    "F720": (
        "this is not a HOPES project",
        "A project is a folder with `NAME.files`, or a folder `CICTask` with its task.xml.",
    ),
    "F721": (
        "a HOPES project is faulty",
        "Names have to exist, numbers to be valid, files to lie inside the project. A file with given times is checked under this code, too. All faults are reported at once.",
    ),
    "F723": (
        "this cannot be a HOPES project",
        "A project has tasks that fire when their data are available, channels of fixed sizes that lose no tokens, and one folder of C files. The messages list everything that does not fit.",
    ),
    "F725": (
        "HOPES drops parts of the text",
        "The project is correct, but means less: it lacks the mapping's stages and threads of networks, sources that may lose data, and deadlines between two tasks. This is a warning.",
    ),
    "F724": (
        "a mapping cannot be expressed in HOPES",
        "A mapping is written back into the project that the text was imported from: both need the same tasks, and everything has to be mapped to processors of its device. The messages list all reasons.",
    ),
    "F726": (
        "the import manifest does not match the project",
        "`STEM.hopes.json` has HOPES' names of tasks, which the export needs. It is rejected if it was edited, belongs to another project, or is older than its tasks; if the project has the same tasks but other files changed, this is a warning.",
    ),
    "F727": (
        "the requested part of a HOPES project does not exist",
        "`--mode`, `--state` and `--device` name parts of the project: a mode of a task, a state of a control task, a device that the mapping uses.",
    ),
    "F722": (
        "HOPES has something that flowc does not",
        "The imported text is correct without it, but means less. This is a warning.",
    ),
    "F734": (
        "a stored mapping was found for another rate, or for fewer cores",
        "`flowc map --fps` and `--cores` override the text, and `--keep` stores the answer. The mapping is used as it is, but proofs for other rates do not hold. This is a warning; `flowc map` finds a mapping for the text.",
    ),
    "F735": (
        "HOPES has no static orders for this project",
        "With `--policy`, `export --into` writes configuration and orders for HOPES' translator. HOPES reads orders of a plain dataflow graph, on CPUs and in its own form `NAME_algorithm.xml`, whose channels have fixed sizes. The messages list everything that does not fit.",
    ),
    "F736": (
        "code of HOPES cannot do what the text requires",
        "A text that was imported from HOPES is exported with the project's own code, for tasks that still run it. Such code cannot read windows or initial values, and its loops and library queries cannot be exported.",
    ),
    "F737": (
        "a text differs from the HOPES project it came from",
        "`export --format hopes` of an imported text compares it with the XML in its import manifest. If they agree, the project is written as it was, with changed places, times and policy. If not, it is written from the text alone, and the warning names the differences. To get the original project, undo them or import it again.",
    ),
    "F738": (
        "files of a HOPES project are not beside the text",
        "A project is exported with its XML and with the code that was imported. Other files that it names, such as code that flowc cannot run, must be copied from the original project. This is a warning.",
    ),
    "F730": (
        "this is not a file of PREESM",
        "A graph is a `.pi`, an architecture a `.slam`, and a scenario names both. They are XML; a file with a document type is rejected, so that no entity is ever expanded or fetched.",
    ),
    "F739": (
        "formats of other tools cannot be loaded",
        "Packages add formats to `import` and `export` by entry points of the group `flowc.formats`. The message says which package, and what its code says. Formats of flowc itself are missing where a checkout has changed since it was installed: `pip install -e .` again.",
    ),
    "F731": (
        "a file of PREESM is faulty",
        "Names have to exist, expressions to have a value, rates to balance, interfaces to have the same rates inside and outside. Only files of the project around the graph are read. All faults are reported at once.",
    ),
    "F732": (
        "PREESM has something that a text cannot express",
        "Parameters, rates and types are fixed in flowc before a program runs: configuration actors and outputs are rejected, and so are rates that are 0 or not integers. A delay keeps its tokens from one iteration to the next.",
    ),
    "F733": (
        "PREESM has something that flowc does not",
        "The imported text is correct without it, but means less than the files, or a value has to be filled in. This is a warning.",
    ),
}
