package nocloud

import (
	"bytes"
	"encoding/binary"
	"io"

	"github.com/pkg/errors"
)

// recordHead is the length of a directory record before its name.
const recordHead = 33

// Read reads the files of a config disk, by name: those in the root whose names Rock Ridge has. It is for disks that
// this package wrote, and safe for any bytes: it reads at most MaxImage. Errors don't show the disk's content.
func Read(r io.ReaderAt) (map[string][]byte, error) {
	disk := io.NewSectionReader(r, 0, MaxImage)
	descriptor, err := read(disk, volumeAt, sector)
	if err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(descriptor, []byte("\x01CD001\x01")) || string(bytes.TrimRight(descriptor[40:72], " ")) != Label {
		return nil, errors.Errorf("cannot read the config disk: it must be an ISO 9660 file system labelled %s", Label)
	}
	root := descriptor[156:190]
	records, err := read(disk, binary.LittleEndian.Uint32(root[2:]), min(binary.LittleEndian.Uint32(root[10:]), sector))
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	left := MaxImage
	for len(records) > 0 && records[0] > 0 {
		length := int(records[0])
		if length <= recordHead || length > len(records) {
			return nil, errors.New("cannot read the config disk: a directory record has a wrong length")
		}
		record := records[:length]
		records = records[length:]
		name := rockRidgeName(record)
		if name == "" {
			continue
		}
		size := binary.LittleEndian.Uint32(record[10:])
		if size > MaxDocument || int(size) > left {
			return nil, errors.Errorf("cannot read the config disk: a file is %d bytes, must be at most %d, and all at most %d", size, MaxDocument, MaxImage)
		}
		left -= int(size)
		if out[name], err = read(disk, binary.LittleEndian.Uint32(record[2:]), size); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// rockRidgeName is the file's name in the entries of a directory record; empty for a directory.
func rockRidgeName(record []byte) string {
	at := recordHead + int(record[32])
	at += at & 1
	if record[25]&aDirectory != 0 || at > len(record) {
		return ""
	}
	for entries := record[at:]; len(entries) > 4; {
		length := int(entries[2])
		if length < 4 || length > len(entries) {
			return ""
		}
		if length > 5 && string(entries[:2]) == "NM" {
			return string(entries[5:length])
		}
		entries = entries[length:]
	}
	return ""
}

func read(disk io.ReaderAt, at, size uint32) ([]byte, error) {
	out := make([]byte, size)
	if n, err := disk.ReadAt(out, int64(at)*sector); n < len(out) {
		return nil, errors.Wrapf(err, "cannot read %d bytes of the config disk in sector %d", size, at)
	}
	return out, nil
}
