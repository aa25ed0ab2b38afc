# Python: packages, archives, byte code written where it is missing, sqlite, a virtual environment, pip.

plant() {
    mkdir -p env/lib/pkg/sub env/wheels/part
    echo 'from . import sub; from .sub import deep' >env/lib/pkg/__init__.py
    : >env/lib/pkg/sub/__init__.py
    echo 'import os; name = os.path.relpath(__file__)' >env/lib/pkg/sub/deep.py
    (cd env/lib && python3 -c 'import zipfile; z = zipfile.ZipFile("zipped.zip", "w"); z.writestr(zipfile.ZipInfo("inzip.py"), "name = __file__"); z.close()')
    cat >env/wheels/make.py <<'END'
import zipfile
with zipfile.ZipFile("env/wheels/part-1.0-py3-none-any.whl", "w") as wheel:
    wheel.writestr(zipfile.ZipInfo("part/__init__.py"), "def main(): print('part runs')\n")
    wheel.writestr(zipfile.ZipInfo("part-1.0.dist-info/METADATA"), "Metadata-Version: 2.1\nName: part\nVersion: 1.0\n")
    wheel.writestr(zipfile.ZipInfo("part-1.0.dist-info/WHEEL"), "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr(zipfile.ZipInfo("part-1.0.dist-info/entry_points.txt"), "[console_scripts]\npart = part:main\n")
    wheel.writestr(zipfile.ZipInfo("part-1.0.dist-info/RECORD"), "")
END
    python3 env/wheels/make.py
    python3 -m venv --without-pip env/venv
}

use() {
    PYTHONPATH=env/lib:env/lib/zipped.zip python3 -c '
import pkg, inzip, importlib, os, sys
print(pkg.deep.name, inzip.name, os.path.exists(pkg.deep.__cached__))
try: import pkg.absent
except ImportError as error: print(error)
open("env/lib/late.py", "w").write("value = 1"); importlib.invalidate_caches(); import late; print(late.value)
os.unlink("env/lib/late.py")'
    find env/lib -name '*.pyc' | sed 's/[.]cpython-[0-9]*//' | sort
    find env/lib -name __pycache__ -exec rm -r {} +
    env/venv/bin/python -c 'import sys; print(sys.prefix, sys.base_prefix != sys.prefix)'
    python3 -m pip --python env/venv/bin/python --no-cache-dir --disable-pip-version-check install -q --no-index --no-compile env/wheels/part-1.0-py3-none-any.whl 2>&1 | grep -v -i warning
    env/venv/bin/part && env/venv/bin/python -c 'import part; print(part.__file__)'
    python3 -m pip --python env/venv/bin/python --disable-pip-version-check uninstall -q -y part 2>&1 | grep -v -i warning
    ls env/venv/bin | grep part
    python3 -m venv --without-pip env/second && env/second/bin/python -c 'import sys; print(sys.prefix)'
    rm -rf env/second
    find env -name __pycache__ -prune -exec rm -r {} +
}

"$1"
