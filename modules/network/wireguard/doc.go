// Package wireguard says what a WireGuard device is and how it is changed in
// place: only what differs is sent, so that sessions of peers that stay go on.
// It owns the kernel's devices (Kernel); those of userspace are held by the
// carrier, which uses the same plan of what to change.
//
// A device's link lies in a tenant's network namespace while its UDP socket
// stays in the namespace of the process. It knows nothing of networks, members
// or reservations: an ID is a name.
package wireguard
