// Package containerd is the connection to containerd: to the one of the
// system, to one at an address, or to croft's own, which it then starts and
// starts again when it ends.
//
// It owns on the node:
//
//   - {run}/containerd/: the socket, configuration, state and log of croft's own.
//   - {state}/containerd/: its root (images, snapshots, metadata), and the file
//     that remembers which containerd this node uses.
//   - the process of croft's own containerd, in a session and control group of
//     its own. It outlives this process and is adopted by the next.
//   - the containerd namespaces PREFIX-USER.
//
// The shims that containerd starts listen in /run/containerd/s, wherever the
// containerd that started them lies; their names don't clash. A containerd that
// croft hasn't started is never stopped, changed or configured.
package containerd
