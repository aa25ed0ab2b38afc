# A recording of quell hears from this module which import runs. Python loads it at its start, because its directory is the first of
# PYTHONPATH. The recorder sees the calls below on names that do not exist, and leaves them out of the trace.
import sys

HOOK = r'''
def hook(place, loader, access, frame_of):
    find_and_load = loader._find_and_load

    def tell(name, text):
        try:
            access((place + name + text.replace("\0", "")).encode("utf-8", "surrogateescape")[:4000], 0)
        except Exception:
            pass

    def is_importlib(name):
        return name.startswith("<frozen importlib") or name.endswith("/importlib/__init__.py")

    def statement():
        frame = frame_of(2)
        while frame is not None and is_importlib(frame.f_code.co_filename):
            frame = frame.f_back
        return "0:" if frame is None else "%d:%s" % (frame.f_lineno or 0, frame.f_code.co_filename)

    def _find_and_load(name, *rest):
        tell("/@begin/", "%s:%s" % (name, statement()))
        origin = ""
        try:
            module = find_and_load(name, *rest)
            try:
                origin = object.__getattribute__(module, "__dict__").get("__file__") or ""
            except Exception:
                pass
            return module
        finally:
            tell("/@end/", origin if isinstance(origin, str) else "")

    loader._find_and_load = _find_and_load
'''


def start(place):
    while place in sys.path:
        sys.path.remove(place)
    sys.path_importer_cache.pop(place, None)
    own = sys.modules.pop("sitecustomize", None)
    try:
        import posix

        names = {}
        # Python leaves the frames of files of this name out of tracebacks and warnings.
        exec(compile(HOOK, "<frozen importlib._bootstrap>", "exec"), names)
        names["hook"](place, sys.modules["_frozen_importlib"], posix.access, sys._getframe)
    except Exception:
        pass
    try:
        # The site's own module of this name.
        import sitecustomize
    except ImportError as error:
        if getattr(error, "name", None) != "sitecustomize":
            raise
    finally:
        sys.modules.setdefault("sitecustomize", own)


if sys.version_info >= (3, 5):
    start(__file__.rpartition("/")[0])
