# Sourced by deploy/demo and tests/run: one virtual environment, .venv, installed from the lock files.
# What is installed already and unchanged is not installed again, so a second run starts at once.
# shellcheck shell=bash

say() { printf '%s\n' "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# Runs a command with its output kept aside; shows the time it takes, and the output if it fails.
quietly() {
  local text=$1 log start=$SECONDS pid
  shift
  log=$(mktemp)
  "$@" >"$log" 2>&1 &
  pid=$!
  while [ -t 1 ] && kill -0 "$pid" 2>/dev/null; do
    printf '\r%s ... %d s' "$text" $((SECONDS - start))
    sleep 0.2
  done
  if wait "$pid"; then
    [ -t 1 ] && printf '\r'
    say "$text ... done ($((SECONDS - start)) s)"
    rm -f "$log"
  else
    say "$text ... failed"
    tail -n 60 "$log" >&2
    rm -f "$log"
    exit 1
  fi
}

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

apt_can_install() { command -v apt-get >/dev/null && as_root true 2>/dev/null; }

# apt_install NAME...: best effort; the caller checks what it wanted.
apt_install() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -q update &&
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends "$@"
}

find_python() {
  local candidate
  for candidate in "${PYTHON:-python3}" python3.13 python3.12 python3.11; do
    if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null; then
      command -v "$candidate"
      return
    fi
  done
  die "Python 3.11, 3.12 or 3.13 is needed; python3 is $(python3 --version 2>&1 || true). Name one with PYTHON=..."
}

make_venv() {
  [ -x .venv/bin/python ] && .venv/bin/python -m pip --version >/dev/null 2>&1 && return
  local python
  python=$(find_python)
  if ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
    apt_can_install || die "Python has no venv module; install it first: apt-get install python3-venv"
    quietly "Installing python3-venv" apt_install python3-venv
  fi
  quietly "Making .venv with $("$python" --version)" "$python" -m venv --clear .venv
}

fingerprint() {
  { cat "$@"; .venv/bin/python --version; } | sha256sum | cut -d' ' -f1
}

# install_lock NAME: what deploy/NAME.lock pins, with hashes.
install_lock() {
  local lock=deploy/$1.lock stamp=.venv/$1.stamp now
  now=$(fingerprint "$lock")
  [ "$(cat "$stamp" 2>/dev/null)" = "$now" ] && return
  quietly "Installing packages of $lock" \
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r "$lock"
  say "$now" >"$stamp"
}

package_files() {
  find sidecar deploy/build pyproject.toml README.md LICENSE -type f \( -name '*.py' -o -name '*.toml' -o -name README.md -o -name LICENSE \) | LC_ALL=C sort
}

# Builds the package from a copy, so that nothing is left in the source tree, and installs it.
build_and_install() {
  local copy
  copy=$(mktemp -d)
  package_files | tar -cf - -T - | tar -xf - -C "$copy"
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall \
    --no-build-isolation "$copy"
  local result=$?
  rm -rf "$copy"
  return $result
}

# install_package: compiled where there is a C compiler; SIDECAR_COMPILED=1 insists.
install_package() {
  local stamp=.venv/package.stamp present now files
  mapfile -t files < <(package_files)
  now=$(fingerprint "${files[@]}")
  present=$(cat "$stamp" 2>/dev/null || true)
  if [ -x .venv/bin/sidecar ]; then
    [ "$present" = "$now-insisted" ] && return
    [ "$present" = "$now" ] && [ -z "${SIDECAR_COMPILED:-}" ] && return
  fi
  quietly "Building and installing sidecar" build_and_install
  case $(.venv/bin/sidecar version) in
    *pure*) [ "${SIDECAR_PURE:-}" = 1 ] ||
      say "It is not compiled, and slower for it: a C compiler or Python.h may be missing (SIDECAR_COMPILED=1 shows why)." ;;
  esac
  say "$now${SIDECAR_COMPILED:+-insisted}" >"$stamp"
}
