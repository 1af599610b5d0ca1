package seal

import (
	"bytes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"github.com/pkg/errors"
	"golang.org/x/crypto/chacha20poly1305"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/provision/persist"
)

// keySize is the size of a data key, in bytes.
const keySize = 32

// Item is what is sealed.
type Item struct {
	Kind persist.Kind
	Name string
	// Version grows with each content of a name, where a name has several.
	Version uint64
	Body    []byte
}

// Vault seals and opens by one data key, for one machine. It may be used from several goroutines.
type Vault struct {
	machine persist.MachineID
	key     []byte
	id      [keyIDSize]byte
	names   []byte
	aead    cipher.AEAD
	packer  *packer
}

// The sizes of a data key's ID and of a hidden name, in bytes.
const (
	keyIDSize  = 16
	hiddenSize = 20
)

// New makes a vault with a new data key.
func New(machine persist.MachineID) (*Vault, error) {
	key := make([]byte, keySize)
	if _, err := rand.Read(key); err != nil {
		return nil, errors.Wrap(err, "cannot make a data key")
	}
	return open(machine, key)
}

// open makes the vault of a data key. What it uses are keys made of it, one a purpose.
func open(machine persist.MachineID, key []byte) (*Vault, error) {
	v := &Vault{machine: machine, key: key, packer: &packer{}}
	for _, part := range []struct {
		purpose string
		size    int
		use     func(sub []byte) error
	}{
		{"croft mirror key ID 1", keyIDSize, func(sub []byte) error { copy(v.id[:], sub); return nil }},
		{"croft mirror names 1", keySize, func(sub []byte) error { v.names = sub; return nil }},
		{"croft mirror objects 1", chacha20poly1305.KeySize, func(sub []byte) (err error) { v.aead, err = chacha20poly1305.NewX(sub); return err }},
	} {
		sub, err := hkdf.Key(sha256.New, key, []byte(machine), part.purpose, part.size)
		if err == nil {
			err = part.use(sub)
		}
		if err != nil {
			return nil, errors.Wrap(err, "cannot use a data key")
		}
	}
	return v, nil
}

// Machine is whose memory the vault seals.
func (v *Vault) Machine() persist.MachineID { return v.machine }

// Hidden is the name by which an object is kept: nobody without the data key can tell what it is of, nor make the name of another.
func (v *Vault) Hidden(kind persist.Kind, name string) string {
	h := hmac.New(sha256.New, v.names)
	_, _ = h.Write([]byte(kind))
	_, _ = h.Write([]byte{0})
	_, _ = h.Write([]byte(name))
	return hex.EncodeToString(h.Sum(nil)[:hiddenSize])
}

// A sealed object: what it is, by which data key, its version, the nonce, and the sealed text. The text is the packed form of the
// length of the name, the name and the body.
const (
	sealedStart = "croft sealed 1\n"
	headSize    = len(sealedStart) + keyIDSize + 8
	overhead    = headSize + chacha20poly1305.NonceSizeX + chacha20poly1305.Overhead
)

// MaxBody is the largest body that can be sealed.
const MaxBody = persist.MaxBody - persist.MaxName - 64<<10

// Seal returns the object to keep. node.Invalid when the item is too large.
func (v *Vault) Seal(i Item) (persist.Object, error) {
	if len(i.Body) > MaxBody {
		return persist.Object{}, node.Errorf(node.Invalid, "cannot seal %s %q: it has %d bytes, at most %d are allowed", i.Kind, i.Name, len(i.Body), MaxBody)
	}
	plain := binary.AppendUvarint(make([]byte, 0, len(i.Name)+len(i.Body)+4), uint64(len(i.Name)))
	plain = append(append(plain, i.Name...), i.Body...)
	packed, err := v.packer.pack(plain)
	if err != nil {
		return persist.Object{}, errors.Wrapf(err, "cannot seal %s %q", i.Kind, i.Name)
	}
	o := persist.Object{Kind: i.Kind, Name: v.Hidden(i.Kind, i.Name)}
	out := make([]byte, 0, len(packed)+overhead)
	out = append(append(out, sealedStart...), v.id[:]...)
	out = binary.BigEndian.AppendUint64(out, i.Version)
	nonce := make([]byte, chacha20poly1305.NonceSizeX)
	if _, err := rand.Read(nonce); err != nil {
		return persist.Object{}, errors.Wrap(err, "cannot make a nonce")
	}
	bound := v.bound(o.Kind, o.Name, out)
	o.Body = v.aead.Seal(append(out, nonce...), nonce, packed, bound)
	return o, o.Check()
}

// bound is what a sealed text is bound to: the object's head, and what isn't in it.
func (v *Vault) bound(kind persist.Kind, hidden string, head []byte) []byte {
	out := bytes.Clone(head)
	for _, part := range []string{string(v.machine), string(kind), hidden} {
		out = binary.AppendUvarint(out, uint64(len(part)))
		out = append(out, part...)
	}
	return out
}

// Open returns what was sealed. node.Invalid when it isn't whole, by another data key, or of another machine, kind or name.
func (v *Vault) Open(o persist.Object) (Item, error) {
	bad := func(why string) (Item, error) {
		return Item{}, node.Errorf(node.Invalid, "cannot open %s %s: %s", o.Kind, persist.KeyOf(o.Name), why)
	}
	if len(o.Body) < overhead || !bytes.HasPrefix(o.Body, []byte(sealedStart)) {
		return bad("it is no sealed object, or cut short")
	}
	head, rest := o.Body[:headSize], o.Body[headSize:]
	id := head[len(sealedStart):]
	if !bytes.Equal(id[:keyIDSize], v.id[:]) {
		return bad("it is sealed by another data key")
	}
	packed, err := v.aead.Open(nil, rest[:chacha20poly1305.NonceSizeX], rest[chacha20poly1305.NonceSizeX:], v.bound(o.Kind, o.Name, head))
	if err != nil {
		return bad("it was changed, or is another object")
	}
	plain, err := v.packer.unpack(packed)
	if err != nil {
		return bad("it can't be unpacked: " + err.Error())
	}
	size, n := binary.Uvarint(plain)
	if n <= 0 || size > uint64(len(plain)-n) {
		return bad("its name is damaged")
	}
	i := Item{Kind: o.Kind, Name: string(plain[n : n+int(size)]), Version: binary.BigEndian.Uint64(id[keyIDSize:]), Body: plain[n+int(size):]}
	if v.Hidden(i.Kind, i.Name) != o.Name {
		return bad("it is another object")
	}
	return i, nil
}
