package dm

import (
	"encoding/binary"
	"testing"
)

// TestShapes holds the sizes that include/uapi/linux/dm-ioctl.h gives the structures: they are a part of the ioctls' numbers.
func TestShapes(t *testing.T) {
	if n := binary.Size(header{}); n != 312 {
		t.Errorf("struct dm_ioctl has %d bytes, must have 312", n)
	}
	if n := binary.Size(target{}); n != 40 {
		t.Errorf("struct dm_target_spec has %d bytes, must have 40", n)
	}
}

func TestEncodedTarget(t *testing.T) {
	raw, err := encoded("verity", "1 /dev/loop0", 800)
	if err != nil {
		t.Fatal(err)
	}
	if len(raw)%8 != 0 || binary.NativeEndian.Uint64(raw[8:]) != 800 || string(raw[24:31]) != "verity\x00" || string(raw[40:53]) != "1 /dev/loop0\x00" {
		t.Errorf("%q", raw)
	}
	if _, err := encoded("a target of a long name", "", 1); err == nil {
		t.Error("a name that is cut off is taken")
	}
}
