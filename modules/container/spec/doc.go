// Package spec defines a container's rights: it writes the OCI runtime
// specification from which runc starts a container, and those of its execs.
//
// Each container has a user and a network namespace that were made before it,
// and fresh ones of every other kind; limits of CPU, memory and processes;
// croft's capabilities, containerd's seccomp profile without btrfs's ioctls,
// no new privileges, standard devices only, masked and read-only paths. Config
// has the request, Host the machine's abilities.
//
// It owns nothing. Detect tries the limits in a cgroup of its own, which is gone
// when it returns; NewProcess reads /etc/passwd and /etc/group of an image, and
// never leaves the image's root for it; all the rest is pure. It may not start,
// mount or change anything.
package spec
