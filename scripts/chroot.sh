# shellcheck shell=sh
# Clean Debians in folders, by mmdebstrap, for root: how one is entered. Sourced by scripts/debian_chroot, tests/fresh.

# inside ROOT COMMAND...: as root there, with what programs ask of a system (/proc; /sys, which PoCL reads; terminals;
# shared memory), all of which goes away by itself, and nothing of this one's environment.
inside() {
    # shellcheck disable=SC2016 # the inner shell's
    unshare --mount sh -ec 'root=$1; shift
        mount -t proc proc "$root/proc"
        mount -t sysfs -o ro sys "$root/sys"
        mkdir -p "$root/dev/pts" "$root/dev/shm"
        mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 terminals "$root/dev/pts"
        [ ! -e "$root/dev/ptmx" ] || mount --bind "$root/dev/pts/ptmx" "$root/dev/ptmx"
        mount -t tmpfs shared "$root/dev/shm"
        exec chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive "$@"
        ' sh "$@"
}

# lend_network ROOT: how this machine finds others, and whom its network vouches for: certificates are the network's.
lend_network() {
    cp /etc/resolv.conf /etc/hosts "$1/etc/"
    certificates=etc/ssl/certs/ca-certificates.crt
    [ ! -e "$1/$certificates" ] || [ ! -e "/$certificates" ] || cp "/$certificates" "$1/$certificates"
}
