package daemon

import (
	"testing"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/cmd/croftd/internal/userapi"
)

func TestUsersGetPublicAddressOnly(t *testing.T) {
	for _, c := range []struct {
		listening string
		own       []string
		want      string
	}{
		{"[::]:9178", []string{"192.168.1.5", "203.0.113.7"}, "203.0.113.7:9178"},
		{"[::]:9178", []string{"2001:db8::7", "203.0.113.7"}, "203.0.113.7:9178"},
		{"[::]:9178", []string{"2001:db8::7"}, "[2001:db8::7]:9178"},
		{"0.0.0.0:5", []string{"10.0.0.1", "172.20.0.1", "100.64.0.9", "169.254.1.1", "fd00::1", "fe80::1", "127.0.0.1", "no address"}, ""},
		{"203.0.113.9:5", []string{"203.0.113.7"}, "203.0.113.9:5"},
		{"127.0.0.1:5", []string{"203.0.113.7"}, ""},
		{"nowhere", []string{"203.0.113.7"}, ""},
	} {
		if got := publicDoor(c.listening, c.own); got != c.want {
			t.Errorf("%s with %v: %q, want %q", c.listening, c.own, got, c.want)
		}
	}
}

func TestTheOperatorSaysWhereTheDoorIs(t *testing.T) {
	d := &daemon{Config: Config{Config: config.Config{DoorAddress: "node.example.org:443"}}}
	if got := d.doorAddress(&engineParts{}, nil); got != "" {
		t.Errorf("without a door: %q", got)
	}
	b := &engineParts{door: &userapi.Door{}}
	if got := d.doorAddress(b, nil); got != "node.example.org:443" {
		t.Errorf("got %q", got)
	}
	d.DoorAddress = config.Nowhere
	if got := d.doorAddress(b, []string{"203.0.113.7"}); got != "" {
		t.Errorf("none: %q", got)
	}
}
