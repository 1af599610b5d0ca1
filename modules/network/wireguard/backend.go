package wireguard

import (
	"context"
	"net/netip"
	"time"
)

// Status is a device as it is.
type Status struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// Namespace is the path that it was made with, NamespaceInode the namespace
	// that its link is in.
	Namespace      string       `json:"namespace"`
	NamespaceInode uint64       `json:"namespace_inode"`
	PublicKey      Key          `json:"public_key"`
	ListenPort     uint16       `json:"listen_port"`
	Peers          []PeerStatus `json:"peers"`
	// Broken says why the device doesn't carry packets, empty when it does:
	// its link or namespace is gone, or the link is down. Set makes it anew.
	Broken string `json:"broken,omitempty"`
}

// PeerStatus is how the tunnel to a peer is.
type PeerStatus struct {
	PublicKey Key `json:"public_key"`
	// Endpoint is where its packets go now, zero while unknown.
	Endpoint   netip.AddrPort `json:"endpoint"`
	AllowedIPs []netip.Prefix `json:"allowed_ips"`
	Keepalive  time.Duration  `json:"keepalive"`
	// LastHandshake is zero for never.
	LastHandshake time.Time `json:"last_handshake"`
	// Rx and Tx are in bytes, since the peer was added.
	Rx uint64 `json:"rx"`
	Tx uint64 `json:"tx"`
}

// The names of the backends.
const (
	KernelName    = "kernel"
	UserspaceName = "userspace"
)

// Backend holds WireGuard devices, each under an ID that its caller chose.
type Backend interface {
	// Name is "kernel" or "userspace".
	Name() string
	// Set makes the device, or changes it in place: sessions of peers that stay
	// aren't interrupted. Its link is up then; addresses and routes are the
	// caller's. A device whose namespace was replaced is made anew in the new
	// one. Invalid for what no device can be, NotExist when there is no such
	// namespace, Refused when the port is in use, Exist when the link's name is
	// taken by another; these change nothing.
	Set(ctx context.Context, id string, c Config) error
	// Remove removes the device and its link. NotExist when there is none.
	Remove(ctx context.Context, id string) error
	// Get returns one device. NotExist when there is none.
	Get(ctx context.Context, id string) (Status, error)
	// List returns all devices.
	List(ctx context.Context) ([]Status, error)
}
