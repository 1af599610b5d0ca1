package workload

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
)

// Type is the type of a workload.
type Type string

// The six types.
const (
	TypeContainer  Type = "container"
	TypeVolume     Type = "volume"
	TypeNetwork    Type = "network"
	TypeZDB        Type = "zdb"
	TypeDebug      Type = "debug"
	TypeKubernetes Type = "kubernetes"
)

// Types returns the six types in the order in which a node restores them.
func Types() []Type {
	return []Type{TypeNetwork, TypeZDB, TypeVolume, TypeContainer, TypeKubernetes, TypeDebug}
}

// Known reports whether t is one of the six.
func (t Type) Known() bool {
	for _, k := range Types() {
		if t == k {
			return true
		}
	}
	return false
}

// Versions of the reservation document. Absent in JSON means V1.
const (
	V1 = 1
	V2 = 2
)

// NonceSize is the size of a reservation's nonce in bytes.
const NonceSize = 16

// Tag is mainly for debugging; it isn't sent.
type Tag map[string]string

// String lists the tags by name.
func (t Tag) String() string {
	names := slices.Sorted(maps.Keys(t))
	for i, name := range names {
		names[i] = name + "=" + t[name]
	}
	return strings.Join(names, ",")
}

// Reservation is a signed request for one workload on one node, for a
// duration. The JSON members and their order are the seed's, then croft's own.
type Reservation struct {
	// ID is "N-M"; the explorer assigns it, so it isn't signed.
	ID string `json:"id"`
	// NodeID is the requested node.
	NodeID string `json:"node_id"`
	// User is the requester's ID; it is the key that verifies Signature.
	User string `json:"user_id"`
	Type Type   `json:"type"`
	// Data holds the type's arguments, byte for byte as received.
	Data json.RawMessage `json:"data,omitempty"`
	// Created is the time of signing; nanoseconds are kept.
	Created time.Time `json:"created"`
	// Duration is in nanoseconds.
	Duration time.Duration `json:"duration"`
	// Signature is a plain ed25519 signature of 64 bytes over SigningBytes.
	Signature []byte `json:"signature,omitempty"`
	// ToDelete asks for an early end, unsigned: croft ignores it.
	ToDelete bool `json:"to_delete"`
	// Tag is mainly for debugging.
	Tag Tag `json:"-"`

	// Version is the document's; absent means 1.
	Version int `json:"version,omitempty"`
	// Nonce makes two equal requests different: 16 random bytes (version 2).
	Nonce []byte `json:"nonce,omitempty"`
	// Deletion, when there is one, is the user's signed request to end it.
	Deletion *Deletion `json:"deletion,omitempty"`
	// Renewal, when there is one, is the user's signed request to extend it.
	Renewal *Renewal `json:"renewal,omitempty"`
}

// Deletion is the user's signed request to end a reservation before its expiry.
type Deletion struct {
	Created   time.Time `json:"created"`
	Signature []byte    `json:"signature"`
}

// Renewal is the user's signed request that the same workload lives until Expires.
type Renewal struct {
	Expires   time.Time `json:"expires"`
	Signature []byte    `json:"signature"`
}

// DocumentVersion is the document's version, 1 when it has none.
func (r *Reservation) DocumentVersion() int {
	if r.Version == 0 {
		return V1
	}
	return r.Version
}

// Expires is when the reservation ends: Created plus Duration, or a renewal's
// time. It doesn't check the renewal's signature.
func (r *Reservation) Expires() time.Time {
	if r.Renewal != nil {
		return r.Renewal.Expires
	}
	return r.Created.Add(r.Duration)
}

// ExpiredAt reports whether the reservation has ended at now.
func (r *Reservation) ExpiredAt(now time.Time) bool { return !now.Before(r.Expires()) }

// Expired reports whether the reservation has ended by the machine's clock.
// The engine doesn't use it: it asks a clock that knows how far it can be trusted.
func (r *Reservation) Expired() bool { return r.ExpiredAt(time.Now()) }
