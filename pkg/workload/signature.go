package workload

import (
	"crypto/ed25519"
	"crypto/rand"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/sign"
)

// Sign makes r a version 2 document (with a new nonce, unless it has one) and
// signs it; r.User becomes the key's ID when it is empty and must be it otherwise.
// A document that says version 1 is signed as version 1.
func (r *Reservation) Sign(privateKey ed25519.PrivateKey) error {
	if len(privateKey) != ed25519.PrivateKeySize {
		return errors.Errorf("cannot sign reservation: the key has %d bytes, must have %d", len(privateKey), ed25519.PrivateKeySize)
	}
	user := sign.ID(privateKey.Public().(ed25519.PublicKey))
	if r.User == "" {
		r.User = user
	}
	if r.User != user {
		return errors.Errorf("cannot sign reservation: user_id is %q, the key's is %q", r.User, user)
	}
	if r.Version == 0 {
		r.Version = V2
	}
	if r.Version == V2 && len(r.Nonce) == 0 {
		r.Nonce = make([]byte, NonceSize)
		if _, err := rand.Read(r.Nonce); err != nil {
			return errors.Wrap(err, "cannot make a nonce")
		}
	}
	message, err := r.SigningBytes()
	if err != nil {
		return err
	}
	r.Signature = ed25519.Sign(privateKey, message)
	return nil
}

// Verify checks r's signature by the key that r.User is, in whichever version
// the document says. It needs no state; whether version 1 is accepted at all,
// which node is meant and what was seen before is for the caller.
func Verify(r *Reservation) error {
	if r.DocumentVersion() == V2 && len(r.Nonce) != NonceSize {
		return errors.Errorf("cannot verify reservation: nonce has %d bytes, must have %d", len(r.Nonce), NonceSize)
	}
	message, err := r.SigningBytes()
	if err != nil {
		return err
	}
	return sign.Verify(r.User, message, r.Signature)
}

// SignDeletion adds the user's signed wish to end r; d.Created is kept.
func (r *Reservation) SignDeletion(d Deletion, privateKey ed25519.PrivateKey) error {
	h, err := r.Hash()
	if err != nil {
		return err
	}
	d.Signature = ed25519.Sign(privateKey, d.SigningBytes(h))
	r.Deletion = &d
	return nil
}

// VerifyDeletion checks r's deletion by the key that r.User is; an error when there is none.
func VerifyDeletion(r *Reservation) error {
	if r.Deletion == nil {
		return errors.Errorf("cannot verify deletion of %s: there is none", r.ID)
	}
	h, err := r.Hash()
	if err != nil {
		return err
	}
	return sign.Verify(r.User, r.Deletion.SigningBytes(h), r.Deletion.Signature)
}

// SignRenewal adds the user's signed wish that r lives until n.Expires.
func (r *Reservation) SignRenewal(n Renewal, privateKey ed25519.PrivateKey) error {
	h, err := r.Hash()
	if err != nil {
		return err
	}
	n.Signature = ed25519.Sign(privateKey, n.SigningBytes(h))
	r.Renewal = &n
	return nil
}

// VerifyRenewal checks r's renewal by the key that r.User is; an error when there is none.
func VerifyRenewal(r *Reservation) error {
	if r.Renewal == nil {
		return errors.Errorf("cannot verify renewal of %s: there is none", r.ID)
	}
	h, err := r.Hash()
	if err != nil {
		return err
	}
	return sign.Verify(r.User, r.Renewal.SigningBytes(h), r.Renewal.Signature)
}

// VerifyResult checks a version 2 result by the key that nodeID is, against
// the reservation of that hash.
func VerifyResult(r *Result, nodeID string, h Hash) error {
	if string(r.Hash) != string(h[:]) {
		return errors.Errorf("cannot verify result %s: it answers another reservation", r.ID)
	}
	signed := *r
	signed.NodeID = nodeID
	message, err := signed.SigningBytes()
	if err != nil {
		return err
	}
	return sign.Verify(nodeID, message, r.Signature)
}
