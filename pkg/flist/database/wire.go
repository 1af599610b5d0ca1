package database

import (
	"bufio"
	"encoding/binary"
	"io"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/flist"
)

// The kinds of messages from the process: rows of tables, and how it ends.
const (
	kindInode  = 'i'
	kindExtra  = 'x'
	kindBlock  = 'b'
	kindTag    = 't'
	kindRoute  = 'r'
	kindEnd    = 'e' // all rows were sent
	kindWrong  = 'w' // the database can't be used: a text
	kindFailed = 'f' // the process failed: a text
)

// mostField is the most bytes of a field.
const mostField = 8 << 10

// field is a number or bytes.
type field struct {
	number int64
	bytes  []byte
}

// fields are those of the messages of a kind: 'n' for a number, 's' for bytes. False for an unknown kind.
func fields(kind byte) (string, bool) {
	switch kind {
	case kindInode:
		return "nnsnnnn", true
	case kindExtra:
		return "ns", true
	case kindBlock:
		return "nss", true
	case kindTag:
		return "ss", true
	case kindRoute:
		return "nns", true
	case kindEnd:
		return "", true
	case kindWrong, kindFailed:
		return "s", true
	}
	return "", false
}

// write writes a message: its kind, then each number as 8 bytes, and each length as 4 with the bytes after it.
func write(w *bufio.Writer, kind byte, all ...field) error {
	err := w.WriteByte(kind)
	form, _ := fields(kind)
	for i, f := range all {
		if err != nil {
			return err
		}
		if form[i] == 'n' {
			_, err = w.Write(binary.BigEndian.AppendUint64(nil, uint64(f.number)))
			continue
		}
		if _, err = w.Write(binary.BigEndian.AppendUint32(nil, uint32(len(f.bytes)))); err == nil {
			_, err = w.Write(f.bytes)
		}
	}
	return err
}

// errNonsense is the error of messages that no such process sends.
var errNonsense = errors.New("it answers nonsense")

// read reads a message. The bytes of a field are bounded before they are read.
func read(r *bufio.Reader) (byte, []field, error) {
	kind, err := r.ReadByte()
	if err != nil {
		return 0, nil, err
	}
	form, ok := fields(kind)
	if !ok {
		return 0, nil, errNonsense
	}
	out := make([]field, len(form))
	for i := range form {
		var head [8]byte
		if form[i] == 'n' {
			if _, err := io.ReadFull(r, head[:]); err != nil {
				return 0, nil, err
			}
			out[i].number = int64(binary.BigEndian.Uint64(head[:]))
			continue
		}
		if _, err := io.ReadFull(r, head[:4]); err != nil {
			return 0, nil, err
		}
		n := binary.BigEndian.Uint32(head[:4])
		if n > mostField {
			return 0, nil, errNonsense
		}
		out[i].bytes = make([]byte, n)
		if _, err := io.ReadFull(r, out[i].bytes); err != nil {
			return 0, nil, err
		}
	}
	return kind, out, nil
}

// ending is how the messages of a process ended: whole, or with a text.
type ending struct {
	kind byte
	text string
}

// receive makes an index of the messages of a process, up to the last one. The error is the flist's, or of reading.
func receive(from io.Reader) (*flist.Flist, ending, error) {
	r, b := bufio.NewReader(from), flist.NewBuilder()
	for {
		kind, f, err := read(r)
		if err != nil {
			return nil, ending{}, err
		}
		switch kind {
		case kindInode:
			err = b.Inode(flist.InodeRow{
				Ino: f[0].number, Parent: f[1].number, Name: string(f[2].bytes), Size: f[3].number, UID: f[4].number, GID: f[5].number, Mode: f[6].number,
			})
		case kindExtra:
			err = b.Extra(f[0].number, f[1].bytes)
		case kindBlock:
			err = b.Block(f[0].number, f[1].bytes, f[2].bytes)
		case kindTag:
			err = b.Tag(string(f[0].bytes), string(f[1].bytes))
		case kindRoute:
			err = b.Route(f[0].number, f[1].number, string(f[2].bytes))
		case kindEnd:
			if _, err := r.ReadByte(); !errors.Is(err, io.EOF) {
				return nil, ending{}, errNonsense
			}
			out, err := b.Flist()
			return out, ending{kind: kind}, err
		case kindWrong, kindFailed:
			return nil, ending{kind, string(f[0].bytes)}, nil
		}
		if err != nil {
			return nil, ending{}, err
		}
	}
}
