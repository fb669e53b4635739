//! The scripts that run on the other side. They are constant; what differs are words that they are given.

/// What both begin with. The first words are a mark for what the script says to us, the digest of the program, whether to keep it,
/// and whether to install what it needs.
pub(crate) const BEGIN: &str = r#"
mark=$1 hash=$2 keep=$3 deps=$4
shift 4
say() { printf '%s %s\n' "$mark" "$*"; }
fail() { say fail "$*"; exit 1; }
sum() { sha256sum < "$1" | cut -c 1-64; }
ours() {
	[ -d "$1" ] || mkdir "$1" 2>/dev/null || [ -d "$1" ] || fail "cannot make the directory $1"
	[ -n "$(find "$1" -prune -type d -user "$uid" ! -perm -020 ! -perm -002)" ] ||
		fail "the directory $1 cannot be used: it is a link, or others may write to it"
}
has() { [ -f "$file" ] && [ ! -L "$file" ] && [ "$(sum "$file")" = "$hash" ]; }
receive() {
	head -c "$1" > "$part"
	[ "$(sum "$part")" = "$hash" ] || fail "the program has not arrived as it was sent"
	chmod 700 "$part" && mv -f "$part" "$file" || fail "cannot put the program into its place"
}
runs() { why=$("$file" --version 2>&1 >/dev/null); }
runnable() {
	runs && return
	if [ "$deps" = yes ]; then
		if command -v dnf >/dev/null; then dnf install -y augeas-libs
		elif command -v yum >/dev/null; then yum install -y augeas-libs
		elif command -v apt-get >/dev/null; then DEBIAN_FRONTEND=noninteractive apt-get install -y libaugeas0
		fi >&2 </dev/null
		runs && return
	fi
	fail "the program cannot run there: $why"
}
umask 077
uid=$(id -u) || fail "cannot tell who we are"
command -v sha256sum >/dev/null || fail "the program sha256sum is missing"
if [ "$uid" = 0 ]; then base=/var/lib; else base=${XDG_CACHE_HOME:-$HOME/.cache}; fi
"#;

/// Receives the program if need be, runs it, and cleans up. All other words are for the program.
pub(crate) const LAUNCH: &str = r#"
dir=$(mktemp -d "${TMPDIR:-/tmp}/mgmt.XXXXXXXXXX") || fail "cannot make a temporary directory"
part=$dir/part
trap 'rm -rf "$dir" "$part"' EXIT
trap 'exit 1' HUP INT TERM
if [ "$keep" = yes ]; then
	[ -d "$base" ] || mkdir -p "$base" || fail "cannot make the directory $base"
	ours "$base/mgmt"
	ours "$base/mgmt/remote"
	file=$base/mgmt/remote/mgmt-$hash
	find "$base/mgmt/remote" -maxdepth 1 -type f -name 'mgmt-*' ! -name "mgmt-$hash" -mtime +30 -exec rm -f {} +
	part=$(mktemp "$base/mgmt/remote/part.XXXXXXXXXX") || fail "cannot write to $base/mgmt/remote"
else
	file=$dir/mgmt
fi
have=no
if has; then
	have=yes
	touch "$file"
fi
say "$(uname -s) $(uname -m) $have"
read -r word size || exit 1
case $word in
copy) receive "$size" ;;
go) rm -f "$part" ;;
*) exit 1 ;;
esac
runnable
say ready
"$file" "$@" --prefix "$dir/prefix"
"#;

/// Looks after a program that goes on without us. The next word is its name, all others are for the program. Then it
/// does what it is told, a line each, until there is nothing more to be told. Looking makes nothing.
pub(crate) const SERVE: &str = r#"
name=$1
shift
if [ "$keep" = yes ]; then base=$base/mgmt; else base=$HOME/.mgmt; fi
work=$base/remote/$name file=$base/remote/$name/mgmt-$hash part=$base/remote/$name/part.$$
trap 'rm -f "$part"' EXIT
trap 'exit 1' HUP INT TERM
prepare() {
	[ -d "${base%/*}" ] || mkdir -p "${base%/*}" || fail "cannot make the directory ${base%/*}"
	ours "$base"
	ours "$base/remote"
	ours "$work"
	find "$work" -maxdepth 1 -type f -name 'part.*' -mmin +60 -exec rm -f {} +
}
pid=
is_up() {
	pid=
	[ -f "$work/pid" ] && [ ! -L "$work/pid" ] && read -r pid < "$work/pid"
	case $pid in '' | *[!0-9]*) return 1 ;; esac
	exe=$(readlink "/proc/$pid/exe") || return 1
	case $exe in "$work"/mgmt-*) return 0 ;; *) return 1 ;; esac
}
stop() {
	waited=0
	is_up && kill -INT "$pid"
	while is_up && [ "$waited" -lt 30 ]; do
		sleep 1
		waited=$((waited + 1))
	done
	is_up && kill -KILL "$pid" && sleep 1
	is_up && fail "process $pid does not end"
	rm -f "$work/pid"
	[ "$keep" = yes ] || [ ! -d "$work" ] || [ -L "$work" ] || rm -rf "$work"
}
start() {
	runnable
	rm -f "$work/pid"
	setsid sh -c 'echo $$ > "$0/pid" && exec "$@"' "$work" "$file" "$@" --prefix "$work/prefix" \
		< /dev/null > "$work/mgmt.log" 2>&1 &
	for second in 1 2 3; do
		sleep 1
		is_up && return
	done
	tail -n 20 "$work/mgmt.log" | while IFS= read -r line; do say log "$line"; done
	fail "it ended right after it was started"
}
if [ -e "$work" ]; then ours "$work"; fi
have=no
has && have=yes
state=no
is_up && state=other
[ "$state" = other ] && [ "$exe" = "$file" ] && state=right
say "$(uname -s) $(uname -m) $have $state"
while read -r word size; do
	case $word in
	stop) stop ;;
	copy)
		prepare
		receive "$size"
		find "$work" -type f -name 'mgmt-*' ! -name "mgmt-$hash" -exec rm -f {} +
		;;
	start)
		prepare
		start "$@"
		;;
	await) is_up && "$exe" __await-exit "$pid" ;;
	*) exit 1 ;;
	esac
	say done
done
"#;
