package api

import (
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

// rules decide whether a document is acceptable, without the database.
type rules struct {
	now         func() time.Time
	maxDuration time.Duration
	// acceptV1 accepts documents of version 1 and their unsigned deletion.
	acceptV1 bool
	// validate checks a reservation's data; it may be nil.
	validate func(*workload.Reservation) error
}

// reservation checks a new reservation and returns its hash.
func (ru *rules) reservation(nodeID string, r *workload.Reservation) (workload.Hash, error) {
	for _, check := range []func() error{
		func() error { return ru.form(nodeID, r) },
		func() error { return ru.times(r) },
		func() error { return checkSignature(r) },
		func() error { return ru.data(r) },
	} {
		if err := check(); err != nil {
			return workload.Hash{}, err
		}
	}
	hash, err := r.Hash()
	return hash, node.WithKind(node.Invalid, err)
}

func (ru *rules) form(nodeID string, r *workload.Reservation) error {
	switch {
	case r.ID != "":
		return invalid("id", r.ID, "empty: the explorer gives it")
	case r.ToDelete:
		return invalid("to_delete", "true", "false or absent")
	case r.NodeID != nodeID:
		return invalid("node_id", r.NodeID, "the node of the address, "+limitText(nodeID))
	case !r.Type.Known():
		return invalid("type", r.Type, "container, volume, network, zdb, debug or kubernetes")
	case len(r.Data) == 0 || r.Data[0] != '{':
		return invalid("data", "another value", "an object")
	case r.Deletion != nil || r.Renewal != nil:
		return invalid("deletion and renewal", "given", "absent: they have addresses of their own")
	case r.DocumentVersion() == workload.V1 && !ru.acceptV1:
		return refused("version", "1", "2: this explorer doesn't accept version 1, which signs neither dates nor deletion")
	}
	if _, err := sign.ParseID(r.User); err != nil {
		return invalid("user_id", r.User, "the base58 of a 32-byte ed25519 key")
	}
	return nil
}

func (ru *rules) times(r *workload.Reservation) error {
	if err := notInFuture(ru.now(), "created", r.Created); err != nil {
		return err
	}
	if r.Duration <= 0 || r.Duration > ru.maxDuration {
		return invalid("duration", int64(r.Duration), "nanoseconds, more than 0 and at most "+ru.maxDuration.String())
	}
	// created + duration can't overflow: the sum of both bounds is before 2262.
	if now := ru.now(); r.ExpiredAt(now) {
		return invalid("duration", r.Duration, "so that it ends after the explorer's clock ("+stamp(now)+"); this one ended at "+stamp(r.Expires()))
	}
	return nil
}

func checkSignature(r *workload.Reservation) error {
	if err := workload.Verify(r); err != nil {
		return &fieldError{field: "signature", value: limitText(err.Error()), allowed: "the user's, over the bytes that are sent", kind: node.Invalid}
	}
	return nil
}

func (ru *rules) data(r *workload.Reservation) error {
	if ru.validate == nil {
		return nil
	}
	return node.WithKind(node.Invalid, ru.validate(r))
}

// deletion reads a user's deletion of doc and checks it.
func (ru *rules) deletion(body []byte, doc workload.Reservation) (*workload.Deletion, error) {
	d, err := workload.DecodeDeletion(body)
	if err != nil {
		return nil, node.WithKind(node.Invalid, err)
	}
	if err := notInFuture(ru.now(), "created", d.Created); err != nil {
		return nil, err
	}
	doc.Deletion = d
	if err := workload.VerifyDeletion(&doc); err != nil {
		return nil, node.WithKind(node.Refused, err)
	}
	return d, nil
}

// renewal checks a user's renewal of doc.
func (ru *rules) renewal(in *workload.Renewal, doc workload.Reservation) error {
	now := ru.now()
	if in.Expires.After(now.Add(ru.maxDuration)) || !in.Expires.After(now) {
		return invalid("expires", in.Expires.Format(time.RFC3339), "after the explorer's clock ("+stamp(now)+") by at most "+ru.maxDuration.String())
	}
	doc.Renewal = in
	if err := workload.VerifyRenewal(&doc); err != nil {
		return node.WithKind(node.Refused, err)
	}
	return nil
}
