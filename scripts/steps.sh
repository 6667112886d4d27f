# Sourced by scripts/test and .ci/run: changes to the repository's root, and runs each step with its output in a log.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# A relative CARGO_TARGET_DIR means the caller's folder, which is left here.
case ${CARGO_TARGET_DIR:=$root/target} in
    /*) ;;
    *) CARGO_TARGET_DIR=$PWD/$CARGO_TARGET_DIR ;;
esac
export CARGO_TARGET_DIR
export CARGO_TERM_COLOR=never # the summary lines are matched as text
export RUST_BACKTRACE=${RUST_BACKTRACE:-1}
logs=$CARGO_TARGET_DIR/logs
mkdir -p "$logs"
cd "$root" || exit

# Everything that tests and examples put into the temp folder goes away with the script, also what a killed child left.
scratch=$(mktemp -d "${TMPDIR:-/tmp}/actor-journal.XXXXXX")
export TMPDIR=$scratch
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# step NAME SHOW COMMAND...: runs the command, shows the lines of its output that match SHOW as they come ('' for all),
# and ends the script with the end of the log if it fails.
step() {
    local name=$1 show=$2 started=$SECONDS status=0
    local log=$logs/${name//[^a-zA-Z0-9]/-}.log
    shift 2
    printf '==> %s\n' "$name"
    # grep finds nothing in a step without such lines, which is no failure; the command's own status is the first.
    { "$@" 2>&1 | tee "$log" | { grep --line-buffered -E -e "$show" || true; }; } || status=$?
    if [ "$status" -eq 0 ]; then
        printf 'ok  %s (%d s)\n' "$name" $((SECONDS - started))
        return
    fi
    {
        printf '\nFAILED %s (%d s); the end of %s:\n\n' "$name" $((SECONDS - started)) "$log"
        tail -n 60 "$log" | sed 's/^/    /'
        printf '\n'
        grep -E '^(test .* FAILED|error(\[E[0-9]+\])?:)' "$log" | sort -u | head -n 20 | sed "s/^/FAILED $name: /"
    } >&2
    exit 1
}

# The shown lines of a step with tests: the test runner's own verdicts.
verdicts='^test result: '
# The shown lines of a step without any.
nothing='^$.'

# The value of a key in the root Cargo.toml that stands on one line in quotes.
manifest_value() {
    sed -n "s/^$1 *= *\"\([^\"]*\)\".*/\1/p" Cargo.toml | head -n 1
}

workspace_crates() {
    cargo tree --workspace --depth 0 --prefix none --format '{p}' | awk 'NF { print $1 }' | sort -u
}

# The features of a crate, one a line, without `default`.
features_of() {
    cargo tree --package "$1" --all-features --depth 0 --prefix none --format '{f}' |
        tr ',' '\n' | awk 'NF && $1 != "default"'
}

toolchain() {
    local missing=0 wanted found
    if ! command -v cargo >/dev/null; then
        echo "error: no cargo; install Rust with rustup (https://rustup.rs), then open a new shell"
        missing=1
    else
        wanted=$(manifest_value rust-version)
        found=$(rustc --version | awk '{ print $2 }')
        if [ "$(printf '%s\n' "$wanted" "${found%%-*}" | sort -V | head -n 1)" != "$wanted" ]; then
            echo "error: Rust $found is older than $wanted; run: rustup update stable"
            missing=1
        fi
    fi
    if ! command -v cc >/dev/null; then
        echo "error: no C compiler, which Rust links with; install one:" \
            "'apt-get install build-essential', 'dnf install gcc' or 'xcode-select --install'"
        missing=1
    fi
    return "$missing"
}
