package clusterboot_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/croft-edge/croft/pkg/clusterboot"
)

func TestParse(t *testing.T) {
	const good = "#cloud-config\n" + `{"ssh_authorized_keys":["ssh-ed25519 AAAA me"],"ssh_import_id":["gh:me"],"croft":{"cluster_secret":"hunter22","master_ips":["10.1.2.10"],"ip":"10.1.2.11"}}`
	d, err := clusterboot.Parse([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	if d.Croft.Control() || d.Croft.Secret != "hunter22" || d.Croft.Address != "10.1.2.11" || len(d.SSHKeys) != 1 || len(d.SSHImport) != 1 {
		t.Errorf("the boot data is %+v", d)
	}
	if s := fmt.Sprintf("%v %+v %#v", d.Croft, d, d); strings.Contains(s, "hunter22") {
		t.Errorf("printed boot data shows the secret: %s", s)
	}
	for name, change := range map[string][2]string{
		"no first line":       {"#cloud-config\n", ""},
		"another first line":  {"#cloud-config", "#!/bin/sh"},
		"no JSON":             {"}}", "}"},
		"a short secret":      {"hunter22", "hunter2"},
		"a name for a master": {"10.1.2.10", "hunter22.example"},
		"IPv6":                {"10.1.2.11", "fd00::1"},
		"another service":     {"gh:me", "lp:me"},
		"a path":              {"gh:me", "gh:me/../you"},
	} {
		_, err := clusterboot.Parse([]byte(strings.Replace(good, change[0], change[1], 1)))
		if err == nil {
			t.Errorf("boot data with %s is taken", name)
		} else if name != "a name for a master" && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("boot data with %s: the error shows the secret: %v", name, err)
		}
	}
}

// TestRoundTrip: init reads what the provisioner writes.
func TestRoundTrip(t *testing.T) {
	for _, want := range []clusterboot.Data{
		{Croft: clusterboot.Machine{Secret: `a secret with "quotes" \ and <signs>`, Masters: []string{}, Address: "10.1.2.10"}},
		{
			SSHKeys: []string{"ssh-ed25519 AAAA me"}, SSHImport: []string{"gh:me", "gh:you"},
			Croft: clusterboot.Machine{Secret: "hunter22", Masters: []string{"10.1.2.10", "10.1.3.10"}, Address: "10.1.2.11"},
		},
	} {
		text, err := want.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := clusterboot.Parse(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is read as %s, %v", want.Croft, got.Croft, err)
		}
	}
}
