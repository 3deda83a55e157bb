#!/usr/bin/env bash
# The flights job on two workers, killed with kill -9 in the middle and run again; then its results against an uninterrupted run.
set -euo pipefail
cd "$(dirname "$0")"
cofferdam=../../target/release/cofferdam
work=$(mktemp -d)
pid=
trap '[[ -z $pid ]] || kill -9 "$pid" 2>/dev/null || true; rm -rf "$work"' EXIT
say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[[ -t 1 ]] || say() { printf '\n%s\n' "$*"; }

# The same job twice: as it is, and slowed down so that there is time to kill it.
job() { # DIRECTORY RATE
  mkdir -p "$work/$1"
  sed -e "s|\"input/|\"$PWD/input/|; s|\"../../target|\"$PWD/../../target|; s|^skip-lines = 1|&\nrate = $2|" job.toml >"$work/$1/job.toml"
}
records() { cat "$work/$1"/out/part-* 2>/dev/null | wc -l; }

say "1. An uninterrupted run of the flights job, for comparison."
job whole 10000000
"$cofferdam" run "$work/whole/job.toml"

say "2. The same job at a limited rate, with a checkpoint every 200 ms, killed with kill -9 in the middle."
job killed 9000
"$cofferdam" run "$work/killed/job.toml" &
pid=$!
until (($(records killed) >= 150)); do
  kill -0 "$pid" || { echo "the job ended before it could be killed" >&2; exit 1; }
  sleep 0.05
done
kill -9 "$pid"
wait "$pid" 2>/dev/null || true
pid=
echo "killed; $(records killed) lines of output were committed and are visible, in whole files."

say "3. Started again: it resumes from its newest checkpoint and finishes."
"$cofferdam" run "$work/killed/job.toml"

say "4. Delays per carrier, from the sink's files of the job that was killed:"
{
  echo "carrier flights cancelled total-delay mean-delay"
  cat "$work/killed"/out/part-* | grep '^total,' | sort | cut -d, -f2- | tr , ' '
} | awk '{printf "%-9s%9s%11s%13s%12s\n", $1, $2, $3, $4, $5}'

say "5. Compared with the uninterrupted run:"
diff <(cat "$work/whole"/out/part-* | sort) <(cat "$work/killed"/out/part-* | sort)
echo "all $(records killed) lines are equal: none is missing, none is there twice."
