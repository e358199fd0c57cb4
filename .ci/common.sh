# Functions for the other scripts, which source this file: `install` for Debian packages, and
# `use_target` and `for_target` to build for another system.

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

update_package_lists() { as_root apt-get update --quiet --quiet; }

# install PACKAGE...: installs the packages that are missing. Safe to call from several scripts at
# the same time. Updates the package lists first, because a new machine may have none.
install() {
  local package missing=()
  mkdir -p target
  {
    flock 9
    for package in "$@"; do
      if ! dpkg --status "$package" 2>/dev/null | grep -q '^Status: .* installed$'; then
        missing+=("$package")
      fi
    done
    if [ ${#missing[@]} = 0 ]; then return; fi
    update_package_lists &&
      as_root apt-get install --yes --quiet --quiet --no-install-recommends "${missing[@]}" >&2
  } 9>target/install.lock
}

has_target() {
  command -v rustup >/dev/null && rustup target list --installed 2>/dev/null | grep -qx "$1"
}

# use_target TRIPLE DIRECTORY: prepares `for_target`, which then builds for TRIPLE in DIRECTORY. If
# rustup does not have the target, Debian's compiler builds std from Debian's sources. On systems
# that lack these packages, such as Ubuntu, rustup adds the target.
use_target() {
  target=$1 directory=$2 build_std=()
  if ! has_target "$target"; then
    if install rustc-web cargo-web rust-web-src rust-web-clippy; then
      # Debian's compiler must be found before rustup's proxies and before any override.
      PATH=/usr/bin:/bin:/usr/sbin:/sbin
      unset CARGO RUSTC RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER RUSTDOC RUSTUP_TOOLCHAIN
      export RUSTC_BOOTSTRAP=1
      build_std=(-Zbuild-std=std,panic_abort,panic_unwind,test,proc_macro)
    else
      rustup target add "$target"
    fi
  fi
  export CARGO_TERM_COLOR=never CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_TEST_DEBUG=0
  echo "$target: $(rustc --version)${build_std:+, with std built from source}"
}

# for_target COMMAND [ARGUMENT...]: runs a cargo command for the target.
for_target() {
  local program=(cargo)
  # `cargo clippy` would look in cargo's home first, and could find rustup's clippy there.
  if [ "$1" = clippy ]; then program=(cargo-clippy); fi
  "${program[@]}" "$1" --quiet --locked --target "$target" --target-dir "$directory" \
    "${build_std[@]}" "${@:2}"
}

# The directories that decide requests, in crates/guarded-fs/src and in src. .ci/coverage and
# .ci/mutants apply to every file in them. The mutants in the second list are tested with the rmcp
# adapter's tests and the slow tests of sessions.
sync_modules=(path dir roots boundary check host)
async_modules=(session rmcp)
