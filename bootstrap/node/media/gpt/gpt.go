// Package gpt writes partition tables of the kind that UEFI reads (GPT, chapter 5 of the UEFI specification), with
// sectors of 512 bytes and 128 entries, and the protective MBR before them. All identifiers are the caller's, so that
// the same table always makes the same bytes. It touches the sectors of the table only, and no boot code.
package gpt

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"unicode/utf16"

	"github.com/google/uuid"
)

const (
	// Sector is the size of a sector in bytes.
	Sector = 512
	// First is the first sector that a partition may have.
	First = 2 + entriesSectors

	entries        = 128
	entrySize      = 128
	entriesSectors = entries * entrySize / Sector
	headerSize     = 92
	nameLength     = 36
	protective     = 446
)

// Partition is one partition.
type Partition struct {
	Type, ID uuid.UUID
	// Name has at most 36 UTF-16 units.
	Name string
	// Start is the first sector, Sectors how many there are.
	Start, Sectors uint64
}

// Table is a disk's partition table.
type Table struct {
	ID uuid.UUID
	// Sectors is the disk's size.
	Sectors    uint64
	Partitions []Partition
}

// check refuses tables that no reader would take.
func (t Table) check() error {
	if len(t.Partitions) > entries {
		return fmt.Errorf("cannot write a table of %d partitions: at most %d are allowed", len(t.Partitions), entries)
	}
	if t.Sectors < First+1+entriesSectors+1 {
		return fmt.Errorf("cannot write a partition table on a disk of %d sectors: it needs %d", t.Sectors, First+1+entriesSectors+1)
	}
	ids := map[uuid.UUID]bool{uuid.Nil: true}
	for _, id := range append([]uuid.UUID{t.ID}, partitionIDs(t.Partitions)...) {
		if ids[id] {
			return fmt.Errorf("cannot write a partition table: the identifier %s is zero or there twice", id)
		}
		ids[id] = true
	}
	next := uint64(First)
	for _, p := range t.Partitions {
		if p.Start < next || p.Sectors == 0 || p.Start > t.last() || p.Sectors > t.last()-p.Start+1 {
			return fmt.Errorf("cannot write partition %q of %d sectors at %d: %d to %d are free", p.Name, p.Sectors, p.Start, next, t.last())
		}
		if len(utf16.Encode([]rune(p.Name))) > nameLength {
			return fmt.Errorf("cannot write partition %q: its name may have %d characters", p.Name, nameLength)
		}
		if p.Type == uuid.Nil {
			return fmt.Errorf("cannot write partition %q: it has no type", p.Name)
		}
		next = p.Start + p.Sectors
	}
	return nil
}

func partitionIDs(partitions []Partition) []uuid.UUID {
	var out []uuid.UUID
	for _, p := range partitions {
		out = append(out, p.ID)
	}
	return out
}

// last is the last sector that a partition may have.
func (t Table) last() uint64 { return t.Sectors - 2 - entriesSectors }

// Write writes the table at both ends of a disk, and the protective MBR's partition and signature; the first 446 bytes
// of the disk, which are boot code's, stay as they are.
func Write(disk io.WriterAt, t Table) error {
	if err := t.check(); err != nil {
		return err
	}
	list := t.list()
	end := t.Sectors - 1
	for _, part := range []struct {
		at      uint64
		content []byte
	}{
		{2 * Sector, list},
		{Sector, t.header(1, end, 2, list)},
		{(end - entriesSectors) * Sector, list},
		{end * Sector, t.header(end, 1, end-entriesSectors, list)},
		{protective, t.protectiveMBR()},
	} {
		if _, err := disk.WriteAt(part.content, int64(part.at)); err != nil {
			return fmt.Errorf("cannot write a partition table: %w", err)
		}
	}
	return nil
}

// list are the entries of all partitions.
func (t Table) list() []byte {
	var out bytes.Buffer
	for _, p := range t.Partitions {
		id, kind := mixed(p.ID), mixed(p.Type)
		out.Write(kind[:])
		out.Write(id[:])
		number(&out, p.Start)
		number(&out, p.Start+p.Sectors-1)
		number(&out, uint64(0)) // attributes
		name := make([]uint16, nameLength)
		copy(name, utf16.Encode([]rune(p.Name)))
		number(&out, name)
	}
	return append(out.Bytes(), make([]byte, entries*entrySize-out.Len())...)
}

// header is the header at a sector; the other one is at the sector other, and its list of entries at the sector listed.
func (t Table) header(at, other, listed uint64, list []byte) []byte {
	var out bytes.Buffer
	out.WriteString("EFI PART")
	number(&out, []uint32{0x00010000, headerSize, 0, 0}) // the third is the header's checksum
	number(&out, []uint64{at, other, First, t.last()})
	id := mixed(t.ID)
	out.Write(id[:])
	number(&out, listed)
	number(&out, []uint32{entries, entrySize, crc32.ChecksumIEEE(list)})
	header := out.Bytes()
	binary.LittleEndian.PutUint32(header[16:], crc32.ChecksumIEEE(header))
	return append(header, make([]byte, Sector-len(header))...)
}

// protectiveMBR is the MBR after its boot code: one partition over the whole disk, of the type that keeps others away.
func (t Table) protectiveMBR() []byte {
	out := make([]byte, Sector-protective)
	copy(out, []byte{0, 0, 2, 0, 0xee, 0xff, 0xff, 0xff})
	binary.LittleEndian.PutUint32(out[8:], 1)
	binary.LittleEndian.PutUint32(out[12:], uint32(min(t.Sectors-1, 0xffffffff)))
	out[64], out[65] = 0x55, 0xaa
	return out
}

func number(out *bytes.Buffer, value any) {
	_ = binary.Write(out, binary.LittleEndian, value) // a buffer takes all
}

// mixed is an identifier as it lies on the disk: the first three of its numbers have their lowest byte first.
func mixed(id uuid.UUID) uuid.UUID {
	return uuid.UUID{id[3], id[2], id[1], id[0], id[5], id[4], id[7], id[6], id[8], id[9], id[10], id[11], id[12], id[13], id[14], id[15]}
}
