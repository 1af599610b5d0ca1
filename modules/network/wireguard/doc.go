// Package wireguard describes a WireGuard device and changes it in place: only
// differences are sent, so that the sessions of unchanged peers go on. It owns
// the kernel's devices (Kernel); userspace devices are held by the carrier, which
// uses the same plan of changes.
//
// A device's link lies in a tenant's network namespace while its UDP socket
// stays in the namespace of the process. It knows nothing of networks, members
// or reservations: an ID is a name.
package wireguard
