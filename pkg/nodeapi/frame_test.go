package nodeapi_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/nodeapi"
)

func head(kind byte, length uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{kind}, length)
}

func TestFramesAreReadAsTheyWereWritten(t *testing.T) {
	var wire []byte
	frames := []nodeapi.Frame{
		{Kind: nodeapi.Stdin, Payload: []byte("a")}, {Kind: nodeapi.Ping, Payload: []byte{}}, {Kind: nodeapi.Exit, Payload: []byte{0, 0, 1, 2}},
		{Kind: nodeapi.Stdout, Payload: bytes.Repeat([]byte("x"), nodeapi.MaxFrame)}, {Kind: nodeapi.CloseStdin, Payload: []byte{}}, {Kind: nodeapi.Failure, Payload: []byte("{}")},
	}
	for _, f := range frames {
		wire = nodeapi.AppendFrame(wire, f)
	}
	r, buffer := bytes.NewReader(wire), make([]byte, nodeapi.MaxFrame)
	for i, want := range frames {
		got, err := nodeapi.ReadFrame(r, buffer)
		if err != nil || got.Kind != want.Kind || !bytes.Equal(got.Payload, want.Payload) {
			t.Errorf("frame %d: kind %d, %d bytes, %v", i, got.Kind, len(got.Payload), err)
		}
	}
	if _, err := nodeapi.ReadFrame(r, buffer); !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("at the end: %v", err)
	}
}

// counting counts the bytes read.
type counting struct {
	io.Reader
	n int
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += n
	return n, err
}

func TestWrongFramesAreRefusedBeforeTheyAreRead(t *testing.T) {
	for name, c := range map[string]struct {
		wire  []byte
		words string
	}{
		"too long":        {head(2, nodeapi.MaxFrame+1), "must be 1 to 65536"},
		"4 GiB":           {head(2, 1<<32-1), "must be 1 to 65536"},
		"empty":           {head(1, 0), "must be 1 to 65536"},
		"unknown":         {head(77, 1), "isn't known"},
		"kind 0":          {head(0, 0), "isn't known"},
		"a long ping":     {head(8, 1), "must be 0 to 0"},
		"a short size":    {head(4, 3), "must be 4 to 4"},
		"a long exit":     {head(5, 5), "must be 4 to 4"},
		"a short failure": {head(7, 1), "must be 2 to 65536"},
	} {
		r := &counting{Reader: io.MultiReader(bytes.NewReader(c.wire), strings.NewReader(strings.Repeat("x", 1<<20)))}
		_, err := nodeapi.ReadFrame(r, make([]byte, nodeapi.MaxFrame))
		if node.KindOf(err) != node.Invalid || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v", name, err)
		}
		if r.n != 5 {
			t.Errorf("%s: %d bytes were read, want the head's 5", name, r.n)
		}
	}
	for _, cut := range [][]byte{{2}, head(2, 5), append(head(2, 5), "abcd"...)} {
		if _, err := nodeapi.ReadFrame(bytes.NewReader(cut), make([]byte, nodeapi.MaxFrame)); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut after %d bytes: %v", len(cut), err)
		}
	}
}

// FuzzReadFrame: of any input, an accepted frame is written the same again.
func FuzzReadFrame(f *testing.F) {
	f.Add([]byte{})
	f.Add(head(8, 0))
	f.Add(head(2, 1<<31))
	f.Add(append(head(1, 3), "abc"...))
	f.Add(append(append(head(9, 4), 0, 0, 1, 0), head(5, 4)...))
	f.Fuzz(func(t *testing.T, wire []byte) {
		r, buffer := bytes.NewReader(wire), make([]byte, nodeapi.MaxFrame)
		var again []byte
		for {
			frame, err := nodeapi.ReadFrame(r, buffer)
			if err != nil {
				break
			}
			again = nodeapi.AppendFrame(again, frame)
		}
		if !bytes.HasPrefix(wire, again) {
			t.Errorf("%x was read as %x", wire, again)
		}
	})
}
