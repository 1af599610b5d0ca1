// Package fslabel reads the labels of file systems that a machine may boot from or be configured by: FAT, ISO 9660 and ext4. It only
// reads, and only superblocks.
package fslabel

import (
	"io"
	"os"
	"strings"
	"unicode"

	"github.com/pkg/errors"
)

// Kinds of file systems, as mount(2) names them.
const (
	FAT  = "vfat"
	ISO  = "iso9660"
	Ext4 = "ext4"
)

// Found is a file system.
type Found struct {
	// Kind is FAT, ISO or Ext4; empty for anything else.
	Kind string
	// Label has no spaces at its end.
	Label string
}

// Is reports whether a label is that one: FAT's labels have upper-case letters only.
func (f Found) Is(label string) bool { return f.Kind != "" && strings.EqualFold(f.Label, label) }

// Of is the file system on a device or in a file.
func Of(device string) (Found, error) {
	f, err := os.Open(device)
	if err != nil {
		return Found{}, errors.Wrap(err, "cannot look for a file system")
	}
	defer f.Close()
	return Read(f), nil
}

// Where superblocks are and what they begin with: FAT's in the first sector (Microsoft's FAT specification 1.03), ISO 9660's in
// sector 16 of 2 KiB (ECMA-119, 8.4), ext4's behind the first KiB (the kernel's Documentation/filesystems/ext4/super.rst).
const (
	sector      = 512
	fat16Kind   = 0x36
	fat32Kind   = 0x52
	fat16Label  = 0x2b
	fat32Label  = 0x47
	fatLabel    = 11
	isoAt       = 16 * 2048
	isoLabel    = 40
	isoLabelEnd = 72
	extAt       = 1024
	extMagic    = 0x38
	extLabel    = 0x78
	extLabelEnd = 0x88
)

// Read is the file system in r.
func Read(r io.ReaderAt) Found {
	first := make([]byte, sector)
	if _, err := r.ReadAt(first, 0); err != nil {
		return Found{}
	}
	if first[510] == 0x55 && first[511] == 0xaa {
		for _, at := range []struct{ kind, label int }{{fat32Kind, fat32Label}, {fat16Kind, fat16Label}} {
			if kind := string(first[at.kind : at.kind+5]); kind == "FAT32" || kind == "FAT16" || kind == "FAT12" {
				return Found{FAT, clean(first[at.label : at.label+fatLabel])}
			}
		}
	}
	block := make([]byte, isoLabelEnd)
	if _, err := r.ReadAt(block, isoAt); err == nil && string(block[:6]) == "\x01CD001" {
		return Found{ISO, clean(block[isoLabel:])}
	}
	block = make([]byte, extLabelEnd)
	if _, err := r.ReadAt(block, extAt); err == nil && block[extMagic] == 0x53 && block[extMagic+1] == 0xef {
		return Found{Ext4, clean(block[extLabel:])}
	}
	return Found{}
}

// clean is a label without its padding, and without what would change a terminal.
func clean(raw []byte) string {
	text, _, _ := strings.Cut(string(raw), "\x00")
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, text))
}
