"""The build backend of the Python package (PEP 517 and 660), without dependencies of its own.

A wheel holds python/musec and, in musec/_lib, libmusec.so as CMake builds it with MUSEC_WHEEL, and
those shared libraries that it needs and a system may lack.  It runs on any Python 3 of the same kind
of processor with a C library that is as new: the tag says how new, from the symbols that are used.

    pip install .                                          no CUDA: nvcc is not looked for
    pip wheel . -C cuda=/usr/local/cuda-12.9,/usr/local/cuda-13.0
                                                           also a library for each major version
    pip wheel . -C cmake=-DMUSEC_BLAS=blis                 options of the build
    pip wheel . -C library=build/libmusec.so               a library that is there already
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "python" / "musec"
# What every system of a manylinux tag has.
SYSTEM = re.compile(r"(lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+)\.so|ld-linux)")


def _say(text: str) -> None:
    print(f"musec: {text}", file=sys.stderr, flush=True)


def _project() -> dict:
    try:
        import tomllib
    except ImportError:  # Python 3.9 and 3.10
        import tomli as tomllib
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def _version() -> str:
    header = (ROOT / "include/musec/musec.h").read_text()
    return ".".join(re.findall(r"#define MUSEC_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header))


# ---- ELF files: what they need --------------------------------------------------------------------


class Elf:
    """The needed libraries and the GLIBC versions of a 64-bit little-endian shared library."""

    def __init__(self, path: Path) -> None:
        data = path.read_bytes()
        if data[:6] != b"\x7fELF\x02\x01":
            raise SystemExit(f"{path}: not a 64-bit little-endian ELF file")
        offset, size, count = (
            struct.unpack_from("<Q", data, 40)[0],
            *struct.unpack_from("<HH", data, 58),
        )
        sections = [
            struct.unpack_from("<IIQQQQIIQQ", data, offset + i * size) for i in range(count)
        ]
        self.needed, self.glibc = [], (2, 0)

        def text(table: tuple, at: int) -> str:
            start = table[4] + at
            return data[start : data.index(b"\0", start)].decode()

        for section in sections:
            kind, start, length, link = section[1], section[4], section[5], section[6]
            if kind == 6:  # SHT_DYNAMIC
                for at in range(start, start + length, 16):
                    tag, value = struct.unpack_from("<qQ", data, at)
                    if tag == 1:
                        self.needed.append(text(sections[link], value))
            elif kind == 0x6FFFFFFE:  # SHT_GNU_verneed
                at = start
                while True:
                    n, _, aux, following = struct.unpack_from("<HIII", data, at + 2)
                    place = at + aux
                    for _ in range(n):
                        name, step = struct.unpack_from("<II", data, place + 8)
                        found = re.fullmatch(
                            r"GLIBC_(\d+)\.(\d+)(\.\d+)?", text(sections[link], name)
                        )
                        if found:
                            self.glibc = max(self.glibc, (int(found[1]), int(found[2])))
                        place += step
                    if following == 0:
                        break
                    at += following


def _locate(name: str) -> Path:
    """Where the loader of this system finds a library."""
    listed = subprocess.run(
        ["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=False
    ).stdout
    for line in listed.splitlines():
        words = line.split()
        if words and words[0] == name and "=>" in words and "x86-64" in line + "x86-64":
            return Path(words[-1]).resolve()
    raise SystemExit(f"{name}, which libmusec.so needs, is not where the loader looks")


def _companions(library: Path) -> dict[str, Path]:
    """The libraries that go along, by the names under which they are asked for."""
    found: dict[str, Path] = {}
    queue = list(Elf(library).needed)
    while queue:
        name = queue.pop()
        if name not in found and not SYSTEM.match(name):
            found[name] = _locate(name)
            queue += Elf(found[name]).needed
    return found


# ---- building -------------------------------------------------------------------------------------


def _run(command: list) -> None:
    _say(" ".join(shlex.quote(str(word)) for word in command))
    try:
        subprocess.run([str(word) for word in command], check=True)
    except FileNotFoundError:
        raise SystemExit(f"{command[0]} is missing: scripts/setup --build installs it") from None
    except subprocess.CalledProcessError as e:
        raise SystemExit(f"{command[0]} failed with {e.returncode}; its words are above") from None


def _build(name: str, options: list) -> Path:
    build = ROOT / f"build-wheel-{name}" if name else ROOT / "build-wheel"
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    _run(
        ["cmake", "-S", ROOT, "-B", build, *generator, "-DMUSEC_WHEEL=ON", "-DMUSEC_TESTS=OFF"]
        + options
    )
    jobs = str(len(os.sched_getaffinity(0)))
    _run(["cmake", "--build", build, "--target", "wheel_library", "--parallel", jobs])
    return build / "libmusec.so"


def _libraries(settings: dict) -> dict[str, Path]:
    """What goes into musec/_lib: file names, and where they come from."""
    options = shlex.split(settings.get("cmake", ""))
    libraries: dict[str, Path] = {}
    if "library" in settings:
        built = {"libmusec.so": Path(settings["library"]).resolve()}
    else:
        built = {"libmusec.so": _build("", ["-DMUSEC_CUDA=OFF", *options])}
    for toolkit in filter(None, settings.get("cuda", "").split(",")):
        nvcc = Path(toolkit) / "bin" / "nvcc"
        if not nvcc.exists():
            raise SystemExit(f"cuda={toolkit}: there is no {nvcc}")
        words = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True)
        major = re.search(r"release (\d+)\.", words.stdout)[1]
        cuda = ["-DMUSEC_CUDA=ON", f"-DCMAKE_CUDA_COMPILER={nvcc}"]
        built[f"libmusec-cu{major}.so"] = _build(f"cu{major}", cuda + options)
    for name, path in built.items():
        libraries[name] = path
        libraries.update(_companions(path))
    return libraries


def _tag(libraries: dict[str, Path]) -> str:
    glibc = max(Elf(path).glibc for path in libraries.values())
    machine = sysconfig.get_platform().rsplit("-", 1)[-1]
    return f"py3-none-manylinux_{glibc[0]}_{glibc[1]}_{machine}"


# ---- wheels ---------------------------------------------------------------------------------------


def _metadata() -> str:
    project = _project()
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {project['name']}",
        f"Version: {_version()}",
        f"Summary: {project['description']}",
        f"License: {project['license']}",
        f"Keywords: {','.join(project['keywords'])}",
        f"Requires-Python: {project['requires-python']}",
        *(f"Requires-Dist: {one}" for one in project["dependencies"]),
    ]
    for extra, wanted in project["optional-dependencies"].items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f'Requires-Dist: {one}; extra == "{extra}"' for one in wanted]
    lines.append("Description-Content-Type: text/markdown")
    return "\n".join(lines) + "\n\n" + (ROOT / project["readme"]).read_text()


class _Wheel:
    """A zip file whose bytes depend on its contents alone."""

    def __init__(self, directory: str, tag: str) -> None:
        self.name = f"musec-{_version()}-{tag}.whl"
        self.info = f"musec-{_version()}.dist-info"
        self.zip = zipfile.ZipFile(Path(directory) / self.name, "w", zipfile.ZIP_DEFLATED)
        self.record: list[str] = []
        self.tag = tag

    def add(self, name: str, data: bytes, mode: int = 0o644) -> None:
        entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
        entry.external_attr = (0o100000 | mode) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        self.zip.writestr(entry, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={digest},{len(data)}")

    def close(self) -> str:
        wheel = (
            f"Wheel-Version: 1.0\nGenerator: musec {_version()}\nRoot-Is-Purelib: false\n"
            f"Tag: {self.tag}\n"
        )
        self.add(f"{self.info}/METADATA", _metadata().encode())
        self.add(f"{self.info}/WHEEL", wheel.encode())
        self.add(f"{self.info}/LICENSE", (ROOT / "LICENSE").read_bytes())
        lines = [*self.record, f"{self.info}/RECORD,,"]
        self.add(f"{self.info}/RECORD", ("\n".join(lines) + "\n").encode())
        self.zip.close()
        return self.name


def _sources() -> list[Path]:
    return sorted(
        path
        for path in PACKAGE.rglob("*")
        if path.is_file()
        and path.suffix in (".py", ".pyi", ".typed")
        and "__pycache__" not in path.parts
    )


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    info = Path(metadata_directory) / f"musec-{_version()}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(_metadata())
    return info.name


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    libraries = _libraries(dict(config_settings or {}))
    wheel = _Wheel(wheel_directory, _tag(libraries))
    for path in _sources():
        wheel.add(str(path.relative_to(PACKAGE.parent)), path.read_bytes())
    for name, path in libraries.items():
        wheel.add(f"musec/_lib/{name}", path.read_bytes(), 0o755)
    name = wheel.close()
    _say(f"{name}: {', '.join(libraries)}")
    return name


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """The sources stay here, and the libraries are put beside them."""
    libraries = _libraries(dict(config_settings or {}))
    (PACKAGE / "_lib").mkdir(exist_ok=True)
    for name, path in libraries.items():
        shutil.copy2(path, PACKAGE / "_lib" / name)
    wheel = _Wheel(wheel_directory, _tag(libraries))
    wheel.add("musec.pth", f"{PACKAGE.parent}\n".encode())
    return wheel.close()


def build_sdist(sdist_directory, config_settings=None):
    """What a wheel is built from: the library's sources and the package."""
    name = f"musec-{_version()}"
    wanted = [
        "CMakeLists.txt",
        "LICENSE",
        "README.md",
        "pyproject.toml",
        "cmake",
        "include",
        "src",
        "experiments",
        "data/sources.json",
        "bench",
        "python",
    ]
    path = Path(sdist_directory) / f"{name}.tar.gz"

    def plain(member: tarfile.TarInfo):
        base = os.path.basename(member.name)
        return None if base in ("__pycache__", "_lib", "results") or base[:1] == "." else member

    with tarfile.open(path, "w:gz") as archive:
        for one in wanted:
            archive.add(ROOT / one, f"{name}/{one}", filter=plain)
        info = _metadata().encode()
        member = tarfile.TarInfo(f"{name}/PKG-INFO")
        member.size = len(info)
        archive.addfile(member, io.BytesIO(info))
    return path.name


def _tools() -> list[str]:
    return [tool for tool in ("cmake", "ninja") if not shutil.which(tool)]


def get_requires_for_build_wheel(config_settings=None):
    return [] if "library" in (config_settings or {}) else _tools()


get_requires_for_build_editable = get_requires_for_build_wheel


def get_requires_for_build_sdist(config_settings=None):
    return []
