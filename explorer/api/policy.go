package api

import (
	"time"

	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
)

// Policy is what the operator allows.
type Policy struct {
	// AcceptSignatureV1 accepts reservations with the seed's signatures, and their unsigned
	// deletion.
	AcceptSignatureV1 bool
	// AcceptUnsignedNodeWrites accepts registrations and results of nodes that run the seed's code.
	AcceptUnsignedNodeWrites bool
	// MaxDuration bounds reservations, and renewals counted from now.
	MaxDuration time.Duration
	// MaxWait bounds the wait of a long poll.
	MaxWait time.Duration
	// MaxPolls bounds the long polls that wait at a time.
	MaxPolls int
	// MaxTunnels bounds the nodes that keep a tunnel open; 0 carries none.
	MaxTunnels int
	// KeyRate and AddressRate are in requests a second, KeyBurst and
	// AddressBurst in requests; a rate of 0 is no limit.
	KeyRate      float64
	KeyBurst     int
	AddressRate  float64
	AddressBurst int
	// ResultRate and ResultBurst limit the results that one node signs: after a restart it sends
	// one for each of its workloads.
	ResultRate  float64
	ResultBurst int
}

// DefaultPolicy is the policy without the operator's settings.
func DefaultPolicy() Policy {
	return Policy{
		MaxDuration: 365 * 24 * time.Hour, MaxWait: time.Minute, MaxPolls: 50000, MaxTunnels: 10000,
		KeyRate: 50, KeyBurst: 1000, AddressRate: 500, AddressBurst: 5000, ResultRate: 200, ResultBurst: 10000,
	}
}

// Validate checks the policy.
func (p Policy) Validate() error {
	switch {
	case p.MaxDuration <= 0 || p.MaxDuration > 100*365*24*time.Hour:
		return node.Errorf(node.Invalid, "cannot use max-duration %s: it must be more than 0 and at most 100 years", p.MaxDuration)
	case p.MaxWait <= 0 || p.MaxWait > time.Hour:
		return node.Errorf(node.Invalid, "cannot use max-wait %s: it must be more than 0 and at most 1h", p.MaxWait)
	case p.MaxPolls < 1:
		return node.Errorf(node.Invalid, "cannot use max-polls %d: it must be at least 1", p.MaxPolls)
	case p.MaxTunnels < 0:
		return node.Errorf(node.Invalid, "cannot use max-tunnels %d: it must be 0 (none) or more", p.MaxTunnels)
	case p.KeyRate < 0 || p.AddressRate < 0 || p.ResultRate < 0:
		return node.Errorf(node.Invalid, "cannot use a negative rate: it must be 0 (no limit) or more")
	case (p.KeyRate > 0 && p.KeyBurst < 1) || (p.AddressRate > 0 && p.AddressBurst < 1) || (p.ResultRate > 0 && p.ResultBurst < 1):
		return node.Errorf(node.Invalid, "cannot use a burst below 1 with a rate")
	}
	return nil
}

// perSource is l, without its limit of a source where the operator has turned address limits off:
// behind a proxy all clients share one address.
func (p Policy) perSource(l limit.Limit) limit.Limit {
	if p.AddressRate == 0 {
		l.Each = 0
	}
	return l
}
