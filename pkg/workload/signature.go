package workload

import (
	"crypto/ed25519"
	"crypto/rand"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/sign"
)

// Sign makes r a version 2 document (with a new nonce, unless it has one) and
// signs it; r.User becomes the key's ID when it is empty and must be it otherwise.
// A document of version 1 is signed as version 1, over its data unchanged: send it
// with Encode, or the signature won't hold.
func (r *Reservation) Sign(privateKey ed25519.PrivateKey) error {
	user, err := userOf(privateKey)
	if err != nil {
		return err
	}
	if r.User == "" {
		r.User = user
	}
	if r.User != user {
		return errors.Errorf("cannot sign reservation: user_id is %q, the key's is %q", r.User, user)
	}
	if err := checkVerbatim(r.Data); err != nil {
		return errors.Wrap(err, "cannot sign reservation: data")
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
	message, err := r.verifiedBytes()
	if err != nil {
		return err
	}
	r.Signature = ed25519.Sign(privateKey, message)
	return nil
}

// Verify checks r's signature by the key of r.User, in the document's version.
// It needs no state; whether version 1 is accepted at all, which node is meant and
// whether it was seen before is for the caller.
func Verify(r *Reservation) error {
	message, err := r.verifiedBytes()
	if err != nil {
		return err
	}
	return sign.Verify(r.User, message, r.Signature)
}

// verifiedBytes are the signed bytes of a document, which no other document
// shares.
func (r *Reservation) verifiedBytes() ([]byte, error) {
	if len(r.Data) > MaxData {
		return nil, errors.Errorf("cannot verify reservation: data has %d bytes, at most %d are allowed", len(r.Data), MaxData)
	}
	switch r.DocumentVersion() {
	case V2:
		if len(r.Nonce) != NonceSize {
			return nil, errors.Errorf("cannot verify reservation: nonce has %d bytes, must have %d", len(r.Nonce), NonceSize)
		}
	case V1:
		// Nothing separates version 1's parts: a node ID of any bytes could
		// hold bytes that were signed for something else.
		if _, err := sign.ParseID(r.NodeID); err != nil {
			return nil, errors.Wrap(err, "cannot verify reservation: node_id")
		}
	}
	return r.SigningBytes()
}

// SignDeletion adds the user's signed request to end r; d.Created is kept.
func (r *Reservation) SignDeletion(d Deletion, privateKey ed25519.PrivateKey) error {
	h, err := r.hashFor(privateKey)
	if err != nil {
		return err
	}
	message, err := d.SigningBytes(h)
	if err != nil {
		return err
	}
	d.Signature = ed25519.Sign(privateKey, message)
	r.Deletion = &d
	return nil
}

// VerifyDeletion checks r's deletion by the key of r.User; an error when
// there is none. A deletion is bound to r's hash: of version 1 it holds for
// every reservation with the same node, type and data.
func VerifyDeletion(r *Reservation) error {
	if r.Deletion == nil {
		return errors.Errorf("cannot verify deletion of %s: there is none", r.ID)
	}
	h, err := r.Hash()
	if err != nil {
		return err
	}
	message, err := r.Deletion.SigningBytes(h)
	if err != nil {
		return err
	}
	return sign.Verify(r.User, message, r.Deletion.Signature)
}

// SignRenewal adds the user's signed request that r lives until n.Expires.
func (r *Reservation) SignRenewal(n Renewal, privateKey ed25519.PrivateKey) error {
	h, err := r.hashFor(privateKey)
	if err != nil {
		return err
	}
	message, err := n.SigningBytes(h)
	if err != nil {
		return err
	}
	n.Signature = ed25519.Sign(privateKey, message)
	r.Renewal = &n
	return nil
}

// VerifyRenewal checks r's renewal by the key of r.User; an error when
// there is none. How far it may go is for the caller.
func VerifyRenewal(r *Reservation) error {
	if r.Renewal == nil {
		return errors.Errorf("cannot verify renewal of %s: there is none", r.ID)
	}
	h, err := r.Hash()
	if err != nil {
		return err
	}
	message, err := r.Renewal.SigningBytes(h)
	if err != nil {
		return err
	}
	return sign.Verify(r.User, message, r.Renewal.Signature)
}

// hashFor is r's hash for a signature by its user.
func (r *Reservation) hashFor(privateKey ed25519.PrivateKey) (Hash, error) {
	user, err := userOf(privateKey)
	if err != nil {
		return Hash{}, err
	}
	if r.User != user {
		return Hash{}, errors.Errorf("cannot sign for reservation %s: user_id is %q, the key's is %q", r.ID, r.User, user)
	}
	return r.Hash()
}

func userOf(privateKey ed25519.PrivateKey) (string, error) {
	if len(privateKey) != ed25519.PrivateKeySize {
		return "", errors.Errorf("cannot sign: the key has %d bytes, must have %d", len(privateKey), ed25519.PrivateKeySize)
	}
	return sign.ID(privateKey.Public().(ed25519.PublicKey)), nil
}

// VerifyResult checks a version 2 result by the key of nodeID, against
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

// VerifyResultV1 checks a version 1 result by the key of nodeID. Its signature
// covers error and data alone: it names neither the reservation nor the time.
func VerifyResultV1(r *Result, nodeID string) error {
	message, err := r.Bytes()
	if err != nil {
		return err
	}
	return sign.Verify(nodeID, message, r.Signature)
}
