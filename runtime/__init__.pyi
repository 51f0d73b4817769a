"""What type checkers see of the names in `__init__.py`."""

from .adapt import Back as Back
from .adapt import Cut as Cut
from .adapt import Front as Front
from .adapt import Variant as Variant
from .age import Age as Age
from .bands import Bands as Bands
from .channel import Channel as Channel
from .code import C as C
from .code import Code as Code
from .code import Network as Network
from .code import Python as Python
from .command import main as main
from .control import Control as Control
from .control import Event as Event
from .counts import UpTo as UpTo
from .cuda import CudaError as CudaError
from .cuda import Memory as Memory
from .ends import Inlet as Inlet
from .ends import Outlet as Outlet
from .engines import OnnxCuda as OnnxCuda
from .engines import TensorRT as TensorRT
from .gpu import open_cuda as open_cuda
from .graph import App as App
from .graph import Fire as Fire
from .graph import Task as Task
from .kernels import Kernels as Kernels
from .kernels import Launch as Launch
from .link import Dropping as Dropping
from .link import Latest as Latest
from .link import Link as Link
from .link import Put as Put
from .link import Take as Take
from .process import Process as Process
from .program import Program as Program
from .remote_channel import Forward as Forward
from .resample import Last as Last
from .resample import Repeat as Repeat
from .scheduling import Background as Background
from .scheduling import FixedPriority as FixedPriority
from .segments import Segments as Segments
from .select import Select as Select
from .tokens import Port as Port
from .tokens import TaskError as TaskError
from .transport import Transport as Transport

FACES: dict[str, str]
