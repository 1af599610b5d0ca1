package engine

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/store"
	"github.com/croft-edge/croft/provision/verify"
)

// simUser signs reservations: with a key or, where a history saves time, with a
// word that the policy of that history takes for a signature.
type simUser struct {
	id   string
	key  ed25519.PrivateKey
	toy  bool
	docs []*simDoc
}

func newSimUser(name string, toy bool) (*simUser, error) {
	seed := sha256.Sum256([]byte(name))
	pair, err := sign.FromSeed(seed[:])
	if err != nil {
		return nil, err
	}
	return &simUser{id: pair.ID(), key: pair.Private(), toy: toy}, nil
}

// simDoc is a reservation as its user has signed it, and the truth about it,
// whatever the node believes.
type simDoc struct {
	r    workload.Reservation
	user *simUser
	hash workload.Hash
	// deleted is whether its user has signed its deletion.
	deleted bool
	// end is its end, with the renewals that the node has accepted.
	end time.Time
	// evicted is when the machine's owner evicted it; zero if never.
	evicted time.Time
	// promised is whether the node was ever seen to have it deployed, ended whether it
	// was seen to have ended it, since the last loss of the store.
	promised, ended bool
	// taken is whether it was promised in any life of the store.
	taken bool
	// admitted is whether its room was ever promised.
	admitted bool
	// evictedIn is the life of the store in which it was evicted.
	evictedIn int
	// renewals are the signatures of its renewals.
	renewals map[string]bool
	// lied is whether the explorer gave it an ID that isn't its own, or its ID to
	// another.
	lied bool
	// bound are the volumes that it was first made with.
	bound map[string]workload.Hash
	// told is the last state that the explorer got, in this life of the store.
	told workload.State
}

func (d *simDoc) over(now time.Time) bool { return !now.Before(d.end) }

// word is a toy user's signature of bytes.
func word(user string, message []byte) []byte {
	sum := sha256.Sum256(append([]byte(user+"|"), message...))
	return sum[:8]
}

// reserve signs a reservation.
func (u *simUser) reserve(r workload.Reservation, rnd *rand.Rand) (*simDoc, error) {
	r.User, r.Version = u.id, workload.V2
	r.Nonce = make([]byte, workload.NonceSize)
	for i := range r.Nonce {
		r.Nonce[i] = byte(rnd.Uint32())
	}
	h, err := r.Hash()
	if err != nil {
		return nil, err
	}
	if u.toy {
		r.Signature = word(u.id, h[:])
	} else if err := r.Sign(u.key); err != nil {
		return nil, err
	}
	doc := &simDoc{r: r, user: u, hash: h, end: r.Expires(), renewals: map[string]bool{}}
	u.docs = append(u.docs, doc)
	return doc, nil
}

func (u *simUser) remove(doc *simDoc, now time.Time) error {
	d := workload.Deletion{Created: now}
	doc.deleted = true
	if !u.toy {
		return doc.r.SignDeletion(d, u.key)
	}
	message, err := d.SigningBytes(doc.hash)
	d.Signature = word(u.id, message)
	doc.r.Deletion = &d
	return err
}

func (u *simUser) renew(doc *simDoc, until time.Time) error {
	n := workload.Renewal{Expires: until}
	var err error
	if u.toy {
		var message []byte
		message, err = n.SigningBytes(doc.hash)
		n.Signature = word(u.id, message)
		doc.r.Renewal = &n
	} else {
		err = doc.r.SignRenewal(n, u.key)
	}
	doc.renewals[string(doc.r.Renewal.Signature)] = true
	return err
}

// simPolicy is verify's policy, except for the signatures.
type simPolicy struct {
	judge *verify.Judge
	clock *simClock
	node  string
}

func (p simPolicy) Authentic(r *workload.Reservation) error {
	h, err := r.Hash()
	if err != nil || !bytes.Equal(r.Signature, word(r.User, h[:])) || r.NodeID != p.node {
		return node.Errorf(node.Invalid, "cannot verify %s", r.ID)
	}
	return nil
}

func (p simPolicy) Acceptable(r *workload.Reservation) error { return p.judge.Acceptable(r) }

func (p simPolicy) Deletion(r *workload.Reservation) error {
	return p.signed(r, r.Deletion.Signature, r.Deletion)
}

func (p simPolicy) signed(r *workload.Reservation, signature []byte, what interface {
	SigningBytes(h workload.Hash) ([]byte, error)
}) error {
	h, err := r.Hash()
	if err != nil {
		return node.WithKind(node.Invalid, err)
	}
	message, err := what.SigningBytes(h)
	if err != nil || !bytes.Equal(signature, word(r.User, message)) {
		return node.Errorf(node.Invalid, "cannot verify what is asked for %s", r.ID)
	}
	return nil
}

// Renewal judges the date as verify.Policy does.
func (p simPolicy) Renewal(r *workload.Reservation) error {
	if err := p.signed(r, r.Renewal.Signature, r.Renewal); err != nil {
		return err
	}
	at := p.clock.Read()
	now := at.Now
	if at.Level == 0 {
		if now = p.clock.Floor(); r.Created.After(now) {
			now = r.Created
		}
	}
	if !r.Renewal.Expires.After(now.Add(verify.DefaultMaxDuration)) {
		return nil
	}
	kind := node.Transient
	if at.Level == 2 {
		kind = node.Refused
	}
	return node.Errorf(kind, "cannot accept renewal of %s: it is too long", r.ID)
}

func (p simPolicy) Validate(r *workload.Reservation) error { return p.judge.Validate(r) }

// simValid checks data: a size of 99 is one that no node accepts.
func simValid(r *workload.Reservation) error {
	if simDataOf(r).Size == 99 {
		return node.Errorf(node.Invalid, "cannot validate %s: size is 99", r.ID)
	}
	return nil
}

// newSimPolicy is the policy of a life of the node.
func newSimPolicy(c *simClock, births *store.FSStore, nodeID string, toy bool) (Policy, error) {
	judge, err := verify.New(verify.Config{Policy: verify.Policy{NodeID: nodeID, AcceptV1: true}, Clock: c, Store: births, Data: simValid})
	if err != nil || !toy {
		return judge, err
	}
	return simPolicy{judge, c, nodeID}, nil
}

// wish makes a random new reservation of a user.
func (u *simUser) wish(rnd *rand.Rand) (workload.Type, string) {
	name := func() string { return fmt.Sprintf("n%d", 1+rnd.IntN(2)) }
	switch rnd.IntN(8) {
	case 0, 1:
		return workload.TypeNetwork, `{"name":"` + name() + `"}`
	case 2, 3:
		return workload.TypeVolume, fmt.Sprintf(`{"size":%d,"type":"SSD"}`, []int{1, 2, 3, 99}[min(rnd.IntN(12), 3)*rnd.IntN(2)])
	case 4:
		mode := []string{"user", "seq"}[rnd.IntN(2)]
		return workload.TypeZDB, `{"size":1,"mode":"` + mode + `","disk_type":"SSD"}`
	}
	mounts := ""
	if v := u.any(rnd, workload.TypeVolume); v != nil && rnd.IntN(3) > 0 {
		named := ""
		if rnd.IntN(2) == 0 {
			named = `,"volume_hash":"` + v.hash.Hex() + `"`
		}
		mounts = `{"volume_id":"` + v.r.ID + `","mountpoint":"/data"` + named + `}`
	}
	network := name()
	if n := u.any(rnd, workload.TypeNetwork); n != nil {
		network = simDataOf(&n.r).Name
	}
	called := ""
	if rnd.IntN(2) == 0 {
		called = `"name":"c` + fmt.Sprint(1+rnd.IntN(2)) + `",`
	}
	return workload.TypeContainer, `{` + called + `"flist":"http://x/y","mounts":[` + mounts + `],"network":{"network_id":"` + network +
		`","ips":["10.0.0.2"]},"capacity":{"cpu":1,"memory":1}}`
}

// any returns one of a user's reservations of a type.
func (u *simUser) any(rnd *rand.Rand, t workload.Type) *simDoc {
	var of []*simDoc
	for _, d := range u.docs {
		if d.r.Type == t {
			of = append(of, d)
		}
	}
	if len(of) == 0 {
		return nil
	}
	return of[rnd.IntN(len(of))]
}
