package main

import (
	"encoding/json"
	"maps"
	"os"
	"testing"

	"github.com/croft-edge/croft/bootstrap/node/init/disks"
)

func TestSettingsAboutDisks(t *testing.T) {
	t.Parallel()
	onDisks := &diskState{pool: "hdd-1", plan: disks.Plan{Disk: []string{"/dev/sda", "/dev/sdb"}, Wipe: []string{"/dev/sdb"}}}
	inMemory := &diskState{memoryDisk: "/dev/zram1", plan: disks.Plan{MemoryPool: 1 << 30}}
	for name, c := range map[string]struct {
		state       *diskState
		given, want map[string]string
	}{
		"disks": {onDisks, map[string]string{"reserve-memory": "1GiB"}, map[string]string{"disk": "/dev/sda,/dev/sdb", "wipe-disk": "/dev/sdb"}},
		"memory": {inMemory, nil, map[string]string{
			"disk": "SSD:/dev/zram1", "reserve-memory": "2684354560", // 512 MiB and twice 1 GiB
		}},
		"little memory":                       {&diskState{memoryDisk: "/dev/zram0"}, nil, map[string]string{"disk": "SSD:/dev/zram0", "reserve-memory": "1073741824"}},
		"memory, with a reserve":              {inMemory, map[string]string{"reserve-memory": "1GiB"}, map[string]string{"disk": "SSD:/dev/zram1", "reserve-memory": "3221225472"}},
		"memory, with a wrong reserve":        {inMemory, map[string]string{"reserve-memory": "much"}, map[string]string{"disk": "SSD:/dev/zram1"}},
		"memory, with more than all reserved": {inMemory, map[string]string{"reserve-memory": "18446744073709551615"}, map[string]string{"disk": "SSD:/dev/zram1", "reserve-memory": "18446744073709551615"}},
	} {
		if got := c.state.settings(c.given); !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestDefaultReserve holds that init knows croftd's default.
func TestDefaultReserve(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../../docs/schema/croftd.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties map[string]struct{ Default any }
	}
	if err := json.Unmarshal(raw, &schema); err != nil {
		t.Fatal(err)
	}
	if is := schema.Properties[reserveMemory].Default; is != defaultReserve {
		t.Errorf("the default of %s is %v, init has %s", reserveMemory, is, defaultReserve)
	}
}
