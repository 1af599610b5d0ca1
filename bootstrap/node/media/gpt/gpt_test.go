package gpt

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
)

func id(last byte) uuid.UUID {
	out := uuid.MustParse("01234567-89ab-cdef-0123-456789abcd00")
	out[15] = last
	return out
}

func table() Table {
	return Table{ID: id(1), Sectors: 8192, Partitions: []Partition{
		{Type: uuid.MustParse("C12A7328-F81F-11D2-BA4B-00A0C93EC93B"), ID: id(2), Name: "first", Start: 2048, Sectors: 2048},
		{Type: uuid.MustParse("EBD0A0A2-B9E5-4433-87C0-68B6B72699C7"), ID: id(3), Name: "zweite Größe", Start: 4096, Sectors: 4063},
	}}
}

// TestSfdisk holds that sfdisk reads the table, and from its end too, and finds no fault.
func TestSfdisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "disk")
	disk, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	if err := disk.Truncate(8192 * Sector); err != nil {
		t.Fatal(err)
	}
	table := table()
	if _, err := disk.WriteAt(bytes.Repeat([]byte{0x90}, 446), 0); err != nil {
		t.Fatal(err)
	}
	if err := Write(disk, table); err != nil {
		t.Fatal(err)
	}
	check := func() {
		t.Helper()
		if out, err := exec.Command("sfdisk", "--verify", path).CombinedOutput(); err != nil || !strings.Contains(string(out), "No errors detected") {
			t.Errorf("sfdisk --verify: %v: %s", err, out)
		}
		out, err := exec.Command("sfdisk", "--dump", path).CombinedOutput()
		if err != nil {
			t.Fatalf("sfdisk --dump: %v: %s", err, out)
		}
		for _, want := range []string{
			"label-id: 01234567-89AB-CDEF-0123-456789ABCD01", "first-lba: 34", "last-lba: 8158",
			`1 : start=        2048, size=        2048, type=C12A7328-F81F-11D2-BA4B-00A0C93EC93B, uuid=01234567-89AB-CDEF-0123-456789ABCD02, name="first"`,
			`2 : start=        4096, size=        4063, type=EBD0A0A2-B9E5-4433-87C0-68B6B72699C7, uuid=01234567-89AB-CDEF-0123-456789ABCD03, name="zweite`,
		} {
			if !strings.Contains(string(out), want) {
				t.Errorf("sfdisk doesn't see %s in\n%s", want, out)
			}
		}
	}
	check()
	mbr := make([]byte, Sector)
	if _, err := disk.ReadAt(mbr, 0); err != nil || mbr[0] != 0x90 || mbr[445] != 0x90 || mbr[450] != 0xee || mbr[510] != 0x55 {
		t.Errorf("the MBR is % x, %v", mbr, err)
	}
	if _, err := disk.WriteAt(make([]byte, Sector), Sector); err != nil { // the first header is lost
		t.Fatal(err)
	}
	if out, err := exec.Command("sfdisk", "--dump", path).CombinedOutput(); err != nil || !strings.Contains(string(out), `name="first"`) {
		t.Errorf("from the second header: %v: %s", err, out)
	}
}

type nothing struct{}

func (nothing) WriteAt(b []byte, _ int64) (int, error) { return len(b), nil }

func TestRefused(t *testing.T) {
	for name, spoil := range map[string]func(*Table){
		"too small":      func(t *Table) { t.Sectors = 60 },
		"no identifier":  func(t *Table) { t.ID = uuid.Nil },
		"twice":          func(t *Table) { t.Partitions[0].ID = t.Partitions[1].ID },
		"no type":        func(t *Table) { t.Partitions[0].Type = uuid.Nil },
		"before":         func(t *Table) { t.Partitions[0].Start = 33 },
		"overlap":        func(t *Table) { t.Partitions[0].Sectors++ },
		"past the end":   func(t *Table) { t.Partitions[1].Sectors++ },
		"overflow":       func(t *Table) { t.Partitions[1].Sectors = 1<<64 - 4096 },
		"starts too far": func(t *Table) { t.Partitions[1].Start = 1 << 40 },
		"empty":          func(t *Table) { t.Partitions[0].Sectors = 0 },
		"a long name":    func(t *Table) { t.Partitions[0].Name = strings.Repeat("n", 37) },
		"too many":       func(t *Table) { t.Partitions = make([]Partition, 129) },
	} {
		table := table()
		if err := Write(nothing{}, table); err != nil {
			t.Fatal(err)
		}
		spoil(&table)
		if err := Write(nothing{}, table); err == nil || !strings.HasPrefix(err.Error(), "cannot write") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
