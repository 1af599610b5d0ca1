package seal

import (
	"bytes"
	"crypto/subtle"
	"encoding/json"

	"github.com/gowebpki/jcs"
	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/provision/persist"
)

// domain begins what the node signs: a signature of a key document is none of anything else.
const domain = "croft mirror key document 1\n"

// keyDocument is what is kept of a data key.
type keyDocument struct {
	Machine persist.MachineID `json:"machine"`
	// Node is the data key in a box for the node's own key.
	Node []byte `json:"node"`
	// RecoveryKey is the ID of the operator's recovery key; empty when there is none. Recovery is the data key and the node's seed in a box
	// for it.
	RecoveryKey string `json:"recovery_key,omitempty"`
	Recovery    []byte `json:"recovery,omitempty"`
	// Signature is the node's, of the others.
	Signature []byte `json:"signature,omitempty"`
}

func (d keyDocument) signed() ([]byte, error) {
	d.Signature = nil
	text, err := json.Marshal(d)
	if err == nil {
		text, err = jcs.Transform(text)
	}
	return append([]byte(domain), text...), errors.Wrap(err, "cannot sign a data key")
}

// Wrap returns the document that keeps the vault's data key: in a box for the node's key, and, if recovery names a key, in one for that, which
// has the node's seed too: with it, a machine whose own disk is lost becomes the same node again. recovery is an ID that the operator has given.
func (v *Vault) Wrap(own sign.KeyPair, recovery string) ([]byte, error) {
	if persist.MachineID(own.ID()) != v.machine {
		return nil, node.Errorf(node.Invalid, "cannot keep the data key of machine %s: the key given is %s's", v.machine, own.ID())
	}
	d := keyDocument{Machine: v.machine, RecoveryKey: recovery}
	var err error
	if d.Node, err = sign.Seal(own.ID(), v.key); err != nil {
		return nil, errors.Wrap(err, "cannot keep a data key")
	}
	if recovery != "" {
		if d.Recovery, err = sign.Seal(recovery, append(bytes.Clone(v.key), own.Seed()...)); err != nil {
			return nil, node.WithKind(node.Invalid, errors.Wrap(err, "cannot use the recovery key"))
		}
	}
	text, err := d.signed()
	if err != nil {
		return nil, err
	}
	d.Signature = own.Sign(text)
	out, err := json.Marshal(d)
	return out, errors.Wrap(err, "cannot keep a data key")
}

// Opened is what a key document gives.
type Opened struct {
	Vault *Vault
	// RecoveryKey is the ID of the recovery key that can open the document too; empty when there is none.
	RecoveryKey string
	// Node is the node's own key: the one given, or the one that the recovery key gave.
	Node sign.KeyPair
}

// Unwrap opens the key document of a machine by key, which is the machine's own or the recovery key's. node.Invalid when the document is
// damaged, or not signed by the machine; node.Refused when key isn't one of these.
func Unwrap(document []byte, machine persist.MachineID, key sign.KeyPair) (Opened, error) {
	var d keyDocument
	if err := json.Unmarshal(document, &d); err != nil {
		return Opened{}, node.Errorf(node.Invalid, "cannot open the data key of %s: its document is damaged", machine)
	}
	text, err := d.signed()
	if err != nil {
		return Opened{}, node.WithKind(node.Invalid, err)
	}
	if d.Machine != machine {
		return Opened{}, node.Errorf(node.Invalid, "cannot open the data key of %s: the document is another machine's", machine)
	}
	if err := sign.Verify(string(machine), text, d.Signature); err != nil {
		return Opened{}, node.WithKind(node.Invalid, errors.Wrapf(err, "cannot open the data key of %s", machine))
	}
	opened := Opened{RecoveryKey: d.RecoveryKey, Node: key}
	var data []byte
	switch key.ID() {
	case string(machine):
		data, err = key.Open(d.Node)
	case d.RecoveryKey:
		data, err = key.Open(d.Recovery)
		if err == nil && len(data) == keySize+sign.SeedSize {
			opened.Node, err = sign.FromSeed(data[keySize:])
			data = data[:keySize]
		}
	default:
		return Opened{}, node.Errorf(node.Refused, "cannot open the data key of %s: key %s is neither the machine's nor the recovery key, which is %q", machine, key.ID(), d.RecoveryKey)
	}
	if err == nil && (len(data) != keySize || subtle.ConstantTimeCompare([]byte(opened.Node.ID()), []byte(machine)) != 1) {
		err = errors.New("the box has something else")
	}
	if err != nil {
		return Opened{}, node.WithKind(node.Invalid, errors.Wrapf(err, "cannot open the data key of %s", machine))
	}
	opened.Vault, err = open(machine, data)
	return opened, err
}
