package persist

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/clip"
	"github.com/croft-edge/croft/pkg/node"
)

// A kept object is a line that says what it is, and its body:
//
//	croft-object 1 {"machine":"…","kind":"…","name":"…","size":3,"sha256":"…"}
//	abc
//
// So an instance that gives another object than the one asked for, an older machine's, or a part of one, is found out. That holds
// against faults, not against somebody who makes objects: package seal does.
const frameStart = "croft-object 1 "

// maxHead bounds the first line: its longest member is the name, whose bytes may each take six in JSON.
const maxHead = 6*MaxName + 512

// MaxFramed is the most bytes that Frame returns.
const MaxFramed = MaxBody + maxHead

// head is the first line of a framed object.
type head struct {
	Machine MachineID `json:"machine"`
	Kind    Kind      `json:"kind"`
	Name    string    `json:"name"`
	Size    int       `json:"size"`
	SHA256  string    `json:"sha256"`
}

// Frame is the bytes that providers keep of an object.
func Frame(machine MachineID, o Object) ([]byte, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(o.Body)
	line, err := json.Marshal(head{Machine: machine, Kind: o.Kind, Name: o.Name, Size: len(o.Body), SHA256: hex.EncodeToString(sum[:])})
	if err != nil {
		return nil, node.WithKind(node.Invalid, errors.Wrapf(err, "cannot keep %s %q", o.Kind, clip.Text(o.Name, 64)))
	}
	out := make([]byte, 0, len(frameStart)+len(line)+1+len(o.Body))
	out = append(append(append(out, frameStart...), line...), '\n')
	return append(out, o.Body...), nil
}

// Unframe returns the object of a kind and key from the bytes that a provider kept for a machine. Invalid when they are anything else.
func Unframe(machine MachineID, kind Kind, key Key, framed []byte) (Object, error) {
	bad := func(format string, args ...any) (Object, error) {
		return Object{}, node.Errorf(node.Invalid, "cannot use %s %s: %w", kind, clip.Text(string(key), 80), errors.Errorf(format, args...))
	}
	rest, ok := bytes.CutPrefix(framed, []byte(frameStart))
	end := bytes.IndexByte(rest[:min(len(rest), maxHead)], '\n')
	if !ok || end < 0 {
		return bad("it is no object of croft, or cut short")
	}
	var h head
	if err := json.Unmarshal(rest[:end], &h); err != nil {
		return bad("its first line is damaged")
	}
	o := Object{Kind: h.Kind, Name: h.Name, Body: rest[end+1:]}
	switch {
	case h.Machine != machine:
		return bad("it is machine %q's, not %q's", clip.Text(string(h.Machine), 64), machine)
	case h.Kind != kind || KeyOf(h.Name) != key:
		return bad("it is another object: %s %q", clip.Text(string(h.Kind), MaxKind), clip.Text(h.Name, 64))
	case h.Size != len(o.Body):
		return bad("it has %d bytes of %d", len(o.Body), h.Size)
	}
	if sum := sha256.Sum256(o.Body); hex.EncodeToString(sum[:]) != h.SHA256 {
		return bad("its checksum doesn't match")
	}
	if err := o.Check(); err != nil {
		return bad("%v", err)
	}
	return o, nil
}
