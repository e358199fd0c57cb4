# Functions for .ci/check and .ci/run, which source this file: the parts of a run, the times that
# they took, and the parts that both run.

export CARGO_TERM_COLOR=never
# These builds are neither debugged nor rebuilt after a change, so they need no debug information
# and no incremental state, which would take most of the disk space.
export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_RELEASE_DEBUG=0
megabytes_free() { df -Pm . | awk 'NR == 2 { print $4 }'; }

titles=() starts=()
# part TITLE: starts a part of the run. The title says what the part shows.
part() {
  titles+=("$1") starts+=("$SECONDS")
  printf '\n== %s (minute %d, %d MB free)\n' "$1" $((SECONDS / 60)) "$(megabytes_free)"
}

# Prints how long each part took.
print_times() {
  local at last=$((${#titles[@]} - 1)) end
  printf '\n%7s  %s\n' minutes part
  for at in "${!titles[@]}"; do
    end=$SECONDS
    if [ "$at" -lt "$last" ]; then end=${starts[at + 1]}; fi
    awk -v seconds=$((end - starts[at])) -v title="${titles[at]}" \
      'BEGIN { printf "%7.1f  %s\n", seconds / 60, title }'
  done
  awk -v seconds="$SECONDS" 'BEGIN { printf "%7.1f  total\n", seconds / 60 }'
}

# Removes build output that no later part needs. Does nothing outside CI, where the next run can use
# the output again.
discard() { if [ -n "${CI:-}" ]; then rm -rf "$@"; fi; }

# Stops background jobs and prints the times. Also runs after a failure.
finish() {
  jobs -p | xargs --no-run-if-empty kill 2>/dev/null || :
  print_times
}
trap finish EXIT

# check_code PACKAGE...: checks the format, the names of types and where unsafe code is, and runs
# the tests of these packages, or of all.
check_code() {
  part "the code is formatted"
  cargo fmt --all --check

  part "a type is named by a noun, and one name is that of one type"
  .ci/type-names

  part "unsafe code and the functions that the lints recommend are where the repository says"
  .ci/unsafe-code

  # The option prints what passing tests count, such as tries, races and traced system calls.
  part "the tests pass with the README's command, cargo test"
  cargo test --quiet "$@" -- --show-output
}
