package nocloud

import (
	"bytes"
	"encoding/binary"
	"io"
	"slices"

	"github.com/pkg/errors"
)

// Label is the name of the file system, by which cloud-init finds it.
const Label = "cidata"

// The layout of the disk, in sectors: after the empty system area the descriptors, both path tables, the root's
// directory, and each file from a sector of its own (ECMA-119, sections 6 to 9).
const (
	sector        = 2048
	volumeAt      = 16
	terminatorAt  = 17
	littleTableAt = 18
	bigTableAt    = 19
	rootAt        = 20
	filesAt       = 21
)

// Modes of what is on the disk: only root reads it, for it may hold secrets.
const (
	rootMode = 0o040500
	fileMode = 0o100400
)

// Flags of a directory record.
const (
	aFile      = 0
	aDirectory = 2
)

// isoNames are the names without Rock Ridge: 8 capital letters, digits and underscores; in their order.
func isoNames() [][2]string {
	return [][2]string{{MetaData, "META_DAT.;1"}, {NetworkConfig, "NETWORK_.;1"}, {UserData, "USER_DAT.;1"}, {VendorData, "VENDOR_D.;1"}}
}

// Write writes the config's disk. Its size is a multiple of 2048 bytes, at most MaxImage. Errors: of Documents, which
// come before anything is written, or the writer's.
func Write(w io.Writer, c Config) error {
	files, err := c.Documents()
	if err != nil {
		return err
	}
	_, err = w.Write(image(files))
	return errors.Wrap(err, "cannot write the config disk")
}

// image is a file system with the files.
func image(files map[string][]byte) []byte {
	root := directory{}
	root.add("\x00", entry{at: rootAt, size: sector, flags: aDirectory}, slices.Concat(sharing(), posix(rootMode, 2), rockRidge()))
	root.add("\x01", entry{at: rootAt, size: sector, flags: aDirectory}, posix(rootMode, 2))
	content := make([]byte, filesAt*sector)
	for _, name := range isoNames() {
		file, ok := files[name[0]]
		if !ok {
			continue
		}
		at := entry{at: uint32(len(content) / sector), size: uint32(len(file)), flags: aFile}
		root.add(name[1], at, slices.Concat(posix(fileMode, 1), alternate(name[0])))
		content = append(content, file...)
		content = append(content, make([]byte, -len(content)&(sector-1))...)
	}
	copy(content[volumeAt*sector:], volume(uint32(len(content)/sector)))
	copy(content[terminatorAt*sector:], "\xffCD001\x01")
	copy(content[littleTableAt*sector:], pathTable(binary.LittleEndian))
	copy(content[bigTableAt*sector:], pathTable(binary.BigEndian))
	copy(content[rootAt*sector:], root.records)
	return content
}

// volume is the primary volume descriptor of a file system of that many sectors (ECMA-119, 8.4).
func volume(sectors uint32) []byte {
	out := make([]byte, sector)
	copy(out, "\x01CD001\x01")
	text := func(from, to int, s string) {
		copy(out[from:to], bytes.Repeat([]byte{' '}, to-from))
		copy(out[from:to], s)
	}
	text(8, 40, "LINUX")
	text(40, 72, Label)
	copy(out[80:], both32(sectors))
	copy(out[120:], both16(1)) // volumes of the set
	copy(out[124:], both16(1)) // number in the set
	copy(out[128:], both16(sector))
	copy(out[132:], both32(uint32(len(pathTable(binary.LittleEndian)))))
	binary.LittleEndian.PutUint32(out[140:], littleTableAt)
	binary.BigEndian.PutUint32(out[148:], bigTableAt)
	var root directory
	root.add("\x00", entry{at: rootAt, size: sector, flags: aDirectory}, nil)
	copy(out[156:], root.records)
	text(190, 813, "") // names of the set, of its publisher, preparer and application, and of three files
	for from := 813; from < 881; from += 17 {
		copy(out[from:], "0000000000000000\x00") // no time is known
	}
	out[881] = 1
	return out
}

// pathTable lists the directories: the root (ECMA-119, 9.4).
func pathTable(order binary.AppendByteOrder) []byte {
	out := order.AppendUint32([]byte{1, 0}, rootAt)
	return append(order.AppendUint16(out, 1), 0, 0)
}

type entry struct {
	at    uint32 // sector
	size  uint32 // bytes
	flags byte
}

// directory collects directory records: four files fit into one sector.
type directory struct {
	records []byte
}

// add adds a record with its system use entries (ECMA-119, 9.1).
func (d *directory) add(name string, e entry, use []byte) {
	out := []byte{0, 0}
	out = append(out, both32(e.at)...)
	out = append(out, both32(e.size)...)
	out = append(out, 100, 1, 1, 0, 0, 0, 0) // 2000-01-01, the same on each disk
	out = append(out, e.flags, 0, 0)
	out = append(out, both16(1)...)
	out = append(out, byte(len(name)))
	out = append(out, name...)
	out = even(out)
	out = even(append(out, use...))
	out[0] = byte(len(out))
	d.records = append(d.records, out...)
}

func even(b []byte) []byte { return append(b, make([]byte, len(b)&1)...) }

// Entries of the System Use Sharing Protocol and of Rock Ridge (IEEE P1281 and P1282): a signature of two letters,
// the entry's length, its version 1, and data.
func use(signature string, data []byte) []byte {
	return append([]byte{signature[0], signature[1], byte(4 + len(data)), 1}, data...)
}

// sharing says that records have entries; it is the first one of the root.
func sharing() []byte { return use("SP", []byte{0xbe, 0xef, 0}) }

// rockRidge says that the entries are Rock Ridge's. Linux looks at names in entries only after it.
func rockRidge() []byte {
	const id = "RRIP_1991A"
	return use("ER", append([]byte{byte(len(id)), 0, 0, 1}, id...))
}

// posix has mode and links; the owner is root.
func posix(mode, links uint32) []byte {
	return use("PX", slices.Concat(both32(mode), both32(links), both32(0), both32(0)))
}

// alternate has the name.
func alternate(name string) []byte { return use("NM", append([]byte{0}, name...)) }

// both16 and both32 are numbers in both byte orders.
func both16(v uint16) []byte {
	return binary.BigEndian.AppendUint16(binary.LittleEndian.AppendUint16(nil, v), v)
}

func both32(v uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, v), v)
}
