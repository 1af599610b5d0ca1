package project_test

import (
	"strings"
	"testing"

	"github.com/croft-edge/croft/cmd/croft/internal/project"
)

const twoMounts = `
project: p
node: NODE1
duration: 1d
workloads:
  data:
    volume: {size: 1, type: SSD}
  web:
    container:
      flist: x
      env: {volume_id: 5-1, network_id: env}
      capacity: {cpu: 1, memory: 1}
      network: {network_id: n, ips: [10.0.0.2]}
      mounts:
        - {volume: data, mountpoint: /d}
        - {volume_id: 99-1, mountpoint: /old}
        - {volume_id: 98-1, volume_hash: HASH, mountpoint: /older}
`

func readWeb(t *testing.T, text string) *project.Workload {
	t.Helper()
	f, err := project.Parse("croft.yaml", withNodes(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return f.Find("web")
}

func TestReferencesAreWrittenByHash(t *testing.T) {
	web := readWeb(t, strings.Replace(twoMounts, "HASH", hashText(98), 1))
	volumes, networks := web.Outside()
	if strings.Join(volumes, " ") != "99-1" || strings.Join(networks, " ") != "n" {
		t.Errorf("outside are %v and %v", volumes, networks)
	}
	none := func(*project.Secret) (string, error) { return "", nil }
	known := project.Targets{Workloads: map[string]project.Target{"data": {ID: "7-1", Hash: hashText(7)}}}
	const mounts = `"mounts":[{"mountpoint":"/d","volume_hash":"DATA","volume_id":"7-1"},{"mountpoint":"/old",OLD"volume_id":"99-1"},` +
		`{"mountpoint":"/older","volume_hash":"OLDER","volume_id":"98-1"}],"network":{"ips":["10.0.0.2"],NET"network_id":"n"}}`
	for _, c := range []struct{ name, old, net string }{
		{"what is outside isn't known", "", ""},
		{"it is", `"volume_hash":"` + hashText(99) + `",`, `"network_hash":"` + hashText(1) + `",`},
	} {
		if c.old != "" {
			known.Volumes, known.Networks = map[string]string{"99-1": hashText(99), "98-1": hashText(3), "5-1": hashText(5)}, map[string]string{"n": hashText(1), "env": hashText(2)}
		}
		data, err := web.Data(known, none, none)
		want := strings.NewReplacer("DATA", hashText(7), "OLDER", hashText(98), "OLD", c.old, "NET", c.net).Replace(mounts)
		if err != nil || !strings.HasSuffix(string(data), want) || !strings.Contains(string(data), `"env":{"network_id":"env","volume_id":"5-1"}`) {
			t.Errorf("%s: data is %s, %v, want one with %s", c.name, data, err, want)
		}
	}
	known.Workloads["data"] = project.Target{ID: "7-1"}
	if data, err := web.Data(known, none, none); err == nil || !strings.Contains(err.Error(), `the hash of "data" isn't known`) {
		t.Errorf("without the volume's hash: %s, %v", data, err)
	}
}

// The digest of a container was the same before data named anything by hash:
// what was applied then hasn't changed.
func TestHashesChangeNoDigest(t *testing.T) {
	web := readWeb(t, strings.Replace(twoMounts, "volume_hash: HASH, ", "", 1))
	const want = "60a302e2c1fd1bac68b6e47d54dadaf5283df9cf5ca00227afbf1e24741a9e66"
	digest, err := web.Digest([]byte("k"), func(*project.Secret) (string, error) { return "", nil })
	if err != nil || digest != want {
		t.Errorf("digest is %s, %v, want %s", digest, err, want)
	}
}
