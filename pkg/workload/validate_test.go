package workload_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/workload"
)

// wantField checks that err names that field, and contains parts.
func wantField(t *testing.T, name string, err error, field string, parts ...string) {
	t.Helper()
	wantError(t, name, err, parts...)
	var f *workload.FieldError
	if !errors.As(err, &f) {
		t.Errorf("%s: %v isn't a FieldError", name, err)
		return
	}
	if f.Field != field || f.Value == "" || f.Allowed == "" {
		t.Errorf("%s: error is %+v, want one of %s", name, *f, field)
	}
}

// change makes good data bad: old is replaced by new.
type change struct {
	name, old, new string
	field          string
	want           string
}

// checkChanges applies changes to the recorded reservation of that name, which is good.
func checkChanges(t *testing.T, recorded string, changes []change) {
	t.Helper()
	body := readRecorded(t, recorded).Post.Request
	good := decode(t, body)
	for _, c := range changes {
		r := *good
		if !strings.Contains(string(r.Data), c.old) {
			t.Fatalf("%s: the data has no %s", c.name, c.old)
		}
		r.Data = json.RawMessage(strings.Replace(string(r.Data), c.old, c.new, 1))
		err := workload.Validate(&r)
		if c.field == "" {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		wantField(t, c.name, err, c.field, c.want)
		if err != nil && len(err.Error()) > 600 {
			t.Errorf("%s: the error has %d bytes", c.name, len(err.Error()))
		}
	}
}

func TestValidateEnvelope(t *testing.T) {
	for _, c := range []struct {
		name, field, want string
		change            func(r *workload.Reservation)
	}{
		{"version", "version", "3, must be 1 or 2", func(r *workload.Reservation) { r.Version = 3 }},
		{"nonce", "nonce", "15, must be 16 bytes", func(r *workload.Reservation) { r.Nonce = r.Nonce[1:] }},
		{"unknown type", "type", `"vm", must be one of network, zdb, volume, container, kubernetes or debug`, func(r *workload.Reservation) { r.Type = "vm" }},
		{"type in another case", "type", `"Volume"`, func(r *workload.Reservation) { r.Type = "Volume" }},
		{"path as ID", "id", `"../../x", must be N-M`, func(r *workload.Reservation) { r.ID = "../../x" }},
		{"short node", "node_id", "the base58 of an ed25519 public key", func(r *workload.Reservation) { r.NodeID = "abc" }},
		{"no user", "user_id", `""`, func(r *workload.Reservation) { r.User = "" }},
		{"zero duration", "duration", "0, must be a whole number of nanoseconds of at least 1", func(r *workload.Reservation) { r.Duration = 0 }},
		{"negative duration", "duration", "-1", func(r *workload.Reservation) { r.Duration = -1 }},
		{"overflowing duration", "duration", "9223372036854775807, must be a whole number of nanoseconds that ends before 2262-04-11", func(r *workload.Reservation) { r.Duration = math.MaxInt64 }},
		{"no created", "created", "0001-01-01T00:00:00Z", func(r *workload.Reservation) { r.Created = time.Time{} }},
		{"no data", "data", "missing, must be an object with size and type", func(r *workload.Reservation) { r.Data = nil }},
		{"null data", "data", "null, must be an object", func(r *workload.Reservation) { r.Data = json.RawMessage("null") }},
		{"data as array", "data", "an array of 0, must be an object", func(r *workload.Reservation) { r.Data = json.RawMessage("[]") }},
		{"another type's data", "data.channel", "unknown, must be one of size or type", func(r *workload.Reservation) {
			r.Data = json.RawMessage(`{"host":"h","port":1,"channel":"c"}`)
		}},
	} {
		r := volume(t)
		c.change(r)
		wantField(t, c.name, workload.Validate(r), c.field, "cannot accept "+c.field, c.want)
	}
	r := volume(t)
	r.ID = ""
	if err := workload.Validate(r); err != nil {
		t.Errorf("without an ID: %v", err)
	}
	r.Duration = math.MaxInt64 - time.Duration(r.Created.UnixNano())
	if err := workload.Validate(r); err != nil {
		t.Errorf("until the end of time: %v", err)
	}
}

func TestValidateVolume(t *testing.T) {
	const size, most = `"size":10`, "a whole number of GiB from 1 to 8589934591"
	checkChanges(t, "volume", []change{
		{"smallest", size, `"size":1`, "", ""},
		{"largest", size, `"size":8589934591`, "", ""},
		{"as a float", size, `"size":10.0`, "", ""},
		{"with an exponent", size, `"size":1e1`, "", ""},
		{"HDD", `"SSD"`, `"HDD"`, "", ""},
		{"zero", size, `"size":0`, "data.size", "cannot accept data.size: it is 0, must be " + most},
		{"minus zero", size, `"size":-0`, "data.size", "it is 0"},
		{"negative", size, `"size":-1`, "data.size", "-1, must be " + most},
		{"a fraction", size, `"size":1.5`, "data.size", "1.5, must be " + most},
		{"too large", size, `"size":8589934592`, "data.size", "8589934592, must be " + most},
		{"what wrapped to 1 GiB", size, `"size":17179869185`, "data.size", "17179869185"},
		{"beyond 2^53", size, `"size":9007199254740993`, "data.size", "9007199254740991"},
		{"as text", size, `"size":"10"`, "data.size", `"10", must be ` + most},
		{"null", size, `"size":null`, "data.size", "null, must be " + most},
		{"missing", size + ",", ``, "data.size", "missing, must be " + most},
		{"another case", `"size"`, `"Size"`, "data.Size", "unknown, must be one of size or type"},
		{"unknown field", size, size + `,"color":"red"`, "data.color", "unknown, must be one of size or type"},
		{"twice", size, size + `,"size":11`, "data.size", "there twice"},
		{"unknown disk", `"SSD"`, `"NVMe"`, "data.type", `"NVMe", must be "SSD" or "HDD"`},
		{"disk in another case", `"SSD"`, `"ssd"`, "data.type", `"ssd"`},
		{"a long text", `"SSD"`, `"` + strings.Repeat("é", 1000) + `"`, "data.type", "…"},
	})
}

func TestValidateZDB(t *testing.T) {
	box := strings.Repeat("ab", 48)
	checkChanges(t, "zdb_nopassword", []change{
		{"sealed", `"password":""`, `"password":"` + box + `"`, "", ""},
		{"capital hex", `"password":""`, `"password":"` + strings.ToUpper(box) + `"`, "", ""},
		{"no password", `"password":"",`, ``, "", ""},
		{"user", `"seq"`, `"user"`, "", ""},
		{"short box", `"password":""`, `"password":"` + box[2:] + `"`, "data.password", "a text of 94 bytes, must be a password sealed to the node, in hex"},
		{"odd box", `"password":""`, `"password":"` + box + `a"`, "data.password", "a text of 97 bytes"},
		{"plain password", `"password":""`, `"password":"hunter2"`, "data.password", "a text of 7 bytes"},
		{"huge box", `"password":""`, `"password":"` + strings.Repeat("ab", 10000) + `"`, "data.password", "at most 16384"},
		{"mode", `"seq"`, `"direct"`, "data.mode", `"direct", must be "user" or "seq"`},
		{"size", `"size":7`, `"size":8589934592`, "data.size", "8589934592"},
		{"public", `"public":false`, `"public":1`, "data.public", "1, must be true or false"},
		{"disk_type", `"disk_type":"HDD",`, ``, "data.disk_type", "missing"},
	})
}

// A possible secret isn't repeated: errors are sent to the explorer, where
// everybody sees them.
func TestErrorsHoldNoSecrets(t *testing.T) {
	for name, wrong := range map[string]change{
		"zdb_nopassword":    {old: `"password":""`, new: `"password":"7777777"`},
		"zdb":               {old: `"password":"06`, new: `"password":77777771e300,"x":"06`},
		"kubernetes_master": {old: `"cluster_secret":"9`, new: `"cluster_secret":7777777,"x":"9`},
		"container":         {old: `"env":{"KEY":"value"`, new: `"env":{"KEY":7777777`},
		"container_failed":  {old: `"env":{"KEY":"value"`, new: `"secret_env":{"KEY":"7777777"},"env":{"KEY":"value"`},
		"network":           {old: `"wg_private_key":"7b`, new: `"wg_private_key":"7777777z`},
	} {
		r := decode(t, readRecorded(t, name).Post.Request)
		r.Data = json.RawMessage(strings.Replace(string(r.Data), wrong.old, wrong.new, 1))
		err := workload.Validate(r)
		if wantError(t, name, err, "cannot accept data."); err != nil && strings.Contains(err.Error(), "7777777") {
			t.Errorf("%s: the error holds the secret: %v", name, err)
		}
	}
}

func TestValidateContainer(t *testing.T) {
	const env, capacity, mount, ips = `"env":{"KEY":"value"`, `"capacity":{"cpu":2,"memory":1024}`, `{"volume_id":"1-1","mountpoint":"/data"}`, `"ips":["10.1.1.20"]`
	const entry = `"entrypoint":"/usr/bin/caddy -conf /etc/caddyfile"`
	box := strings.Repeat("ab", 48)
	checkChanges(t, "container", []change{
		{"secret_env", env, `"secret_env":{"S":"` + box + `"},` + env, "", ""},
		{"image_auth", env, `"image_auth":"` + box + `",` + env, "", ""},
		{"null lists", mount, mount, "", ""},
		{"secret_env null", env, `"secret_env":null,` + env, "", ""},
		{"public_ip6", ips, ips + `,"public_ip6":true`, "", ""},
		{"IPv6", `"10.1.1.20"`, `"fd00::1"`, "", ""},
		{"in both", env, `"secret_env":{"KEY":"` + box + `"},` + env, "data.secret_env.KEY", "in env too, must be in one of env and secret_env"},
		{"plain secret", env, `"secret_env":{"S":"hunter2"},` + env, "data.secret_env.S", "a text of 7 bytes"},
		{"name with =", env, `"env":{"A=B":"x"`, "data.env.A=B", "without ="},
		{"empty name", env, `"env":{"":"x"`, "data.env.", "1 to 256"},
		{"value with zero", env, `"env":{"A":"x\u0000"`, "data.env.A", "a text of 2 bytes"},
		{"value as number", env, `"env":{"A":1`, "data.env.A", "it is a number, must be a text"},
		{"value too long", env, `"env":{"A":"` + strings.Repeat("x", 32769) + `"`, "data.env.A", "at most 32768"},
		{"no CPU", capacity, `"capacity":{"cpu":0,"memory":1024}`, "data.capacity.cpu", "0, must be a whole number of cores from 1 to 4096"},
		{"no memory", capacity, `"capacity":{"cpu":1,"memory":0}`, "data.capacity.memory", "0, must be a whole number of MiB from 1 to 8796093022207"},
		{"memory unsaid", capacity, `"capacity":{"cpu":1}`, "data.capacity.memory", "missing"},
		{"capacity unsaid", `,` + capacity, ``, "data.capacity", "missing"},
		{"too much memory", capacity, `"capacity":{"cpu":1,"memory":8796093022208}`, "data.capacity.memory", "8796093022208"},
		{"no flist", `"flist":"https://hub.grid.tf/tf-official-apps/caddy.flist"`, `"flist":""`, "data.flist", "1 to 2048"},
		{"mounts elsewhere", `"/data"`, `"data"`, "data.mounts[0].mountpoint", "an absolute path"},
		{"mounts root", `"/data"`, `"/data/.."`, "data.mounts[0].mountpoint", `"/data/..", must be an absolute path other than /`},
		{"mounts twice", `"/data"`, `"/srv//logs/../../logs/"`, "data.mounts[1].mountpoint", "another path"},
		{"volume", `"volume_id":"1-1"`, `"volume_id":"../1-1"`, "data.mounts[0].volume_id", "../1-1"},
		{"large volume", `"volume_id":"1-1"`, `"volume_id":"18446744073709551616-1"`, "data.mounts[0].volume_id", "N-M"},
		{"unknown in a mount", mount, `{"volume_id":"1-1","mountpoint":"/data","ro":true}`, "data.mounts[0].ro", "unknown, must be one of mountpoint, volume_hash or volume_id"},
		{"no addresses", ips, `"ips":[]`, "data.network.ips", "an array of 0, must be 1 to 16 addresses"},
		{"null addresses", ips, `"ips":null`, "data.network.ips", "null, must be 1 to 16 addresses"},
		{"no network", `"network_id":"net1"`, `"network_id":""`, "data.network.network_id", "1 to 64"},
		{"an address with a port", `"10.1.1.20"`, `"10.1.1.20:80"`, "data.network.ips[0]", ""},
		{"an address of 4 parts", `"10.1.1.20"`, `"10.1.1.256"`, "data.network.ips[0]", "an IPv4 or IPv6 address"},
		{"loopback", `"10.1.1.20"`, `"127.0.0.1"`, "data.network.ips[0]", "127.0.0.1"},
		{"unspecified", `"10.1.1.20"`, `"::"`, "data.network.ips[0]", "one host"},
		{"multicast", `"10.1.1.20"`, `"224.0.0.1"`, "data.network.ips[0]", "one host"},
		{"link-local", `"10.1.1.20"`, `"fe80::1"`, "data.network.ips[0]", "one host"},
		{"two addresses", `"10.1.1.20"`, `"10.1.1.20","10.1.1.21"`, "", ""},
		{"an address twice", `"10.1.1.20"`, `"10.1.1.20","10.1.1.21","10.1.1.20"`, "data.network.ips[2]", `"10.1.1.20", must be another address than the others`},
		{"an address twice, as IPv6", `"10.1.1.20"`, `"10.1.1.20","::ffff:10.1.1.20"`, "data.network.ips[1]", "another address"},
		{"an address twice, as IPv6 in hex", `"10.1.1.20"`, `"::ffff:a01:114","10.1.1.20"`, "data.network.ips[1]", "another address"},
		{"an IPv6 address twice", `"10.1.1.20"`, `"fd00::1","FD00:0:0::0001"`, "data.network.ips[1]", "another address"},
		{"an empty address", `"10.1.1.20"`, `""`, "data.network.ips[0]", "an IPv4 or IPv6 address"},
		{"mounts over /proc", `"/data"`, `"/srv/../proc"`, "data.mounts[0].mountpoint", "isn't /proc, /sys or /dev"},
		{"mounts in /dev", `"/data"`, `"/dev/shm"`, "data.mounts[0].mountpoint", "isn't /proc, /sys or /dev"},
		{"mounts beside /sys", `"/data"`, `"/system"`, "", ""},
		{"lines in a value", env, `"env":{"A":"x\ny\r\n\tz"`, "", ""},
		{"zero in a name", env, `"env":{"A\u0000":"x"`, "data.env.A\x00", "control characters"},
		{"line in a name", env, `"env":{"A\nB":"x"`, "data.env.A\nB", "control characters"},
		{"entry point with quotes", entry, `"entrypoint":"/bin/sh -c 'a \"b\" c'"`, "", ""},
		{"entry point of spaces", entry, `"entrypoint":" \t\n"`, "", ""},
		{"entry point with an open quote", entry, `"entrypoint":"/bin/sh -c 'a"`, "data.entrypoint", "whose quotes are all closed"},
		{"entry point that ends in a backslash", entry, `"entrypoint":"a \\"`, "data.entrypoint", "backslash"},
		{"entry point of nothing", entry, `"entrypoint":"'' a"`, "data.entrypoint", "first word"},
		{"entry point with zero", entry, `"entrypoint":"a\u0000"`, "data.entrypoint", "zero characters"},
	})
}

func TestContainerLists(t *testing.T) {
	r := decode(t, readRecorded(t, "container").Post.Request)
	withMounts := func(n int) error {
		mounts := make([]string, n)
		for i := range mounts {
			mounts[i] = fmt.Sprintf(`{"volume_id":"1-1","mountpoint":"/m%d"}`, i)
		}
		c := *r
		c.Data = json.RawMessage(`{"flist":"f","mounts":[` + strings.Join(mounts, ",") + `],"network":{"network_id":"n","ips":["10.0.0.1"]},"capacity":{"cpu":1,"memory":1}}`)
		return workload.Validate(&c)
	}
	if err := withMounts(64); err != nil {
		t.Error(err)
	}
	wantField(t, "65 mounts", withMounts(65), "data.mounts", "an array of 65, must be at most 64 mounts")
	// encoding/json's output of empty lists and maps.
	r.Data = json.RawMessage(`{"flist":"f","flist_storage":"","env":null,"secret_env":null,"entrypoint":"","interactive":false,"mounts":null,"network":{"network_id":"n","ips":["10.0.0.1"],"public_ip6":false},"capacity":{"cpu":1,"memory":1}}`)
	if err := workload.Validate(r); err != nil {
		t.Error(err)
	}
}

func TestValidateKubernetes(t *testing.T) {
	checkChanges(t, "kubernetes_master", []change{
		{"masters null", `"master_ips":[]`, `"master_ips":null`, "", ""},
		{"size 0", `"size":1`, `"size":0`, "data.size", "from 1 to 255"},
		{"size 256", `"size":1`, `"size":256`, "data.size", "256"},
		{"no address", `"ip":"10.1.1.30"`, `"ip":""`, "data.ip", ""},
		{"an address that isn't one", `"10.1.1.30"`, `"10.1.1"`, "data.ip", "an IPv4 or IPv6 address"},
		{"loopback", `"10.1.1.30"`, `"127.0.0.1"`, "data.ip", "one host"},
		{"a master that isn't one", `"master_ips":[]`, `"master_ips":["10.0.0.1","0.0.0.0"]`, "data.master_ips[1]", "one host"},
		{"a key with a line break", `"github:octocat"`, `"ssh-ed25519 AA\nroot"`, "data.ssh_keys[0]", "on one line"},
		{"an empty key", `"github:octocat"`, `""`, "data.ssh_keys[0]", "1 to 16384"},
		{"no secret", `"cluster_secret":"9`, `"cluster_secret":"","x":"9`, "data.cluster_secret", "a text of 0 bytes"},
		{"a name with a zero", `"net1"`, `"net\u0000"`, "data.network_id", "without control characters"},
	})
}

func TestValidateDebug(t *testing.T) {
	checkChanges(t, "debug", []change{
		{"a name", `"10.0.0.5"`, `"logs.example.com"`, "", ""},
		{"IPv6", `"10.0.0.5"`, `"fd00::5"`, "", ""},
		{"shell", `"10.0.0.5"`, `"x; reboot"`, "data.host", "a host name or an address"},
		{"a number", `"10.0.0.5"`, `"2130706433"`, "data.host", "a host name or an address"},
		{"a hexadecimal number", `"10.0.0.5"`, `"0x7f000001"`, "data.host", "a host name or an address"},
		{"half an address", `"10.0.0.5"`, `"10.1"`, "data.host", "a host name or an address"},
		{"a name that ends in a digit", `"10.0.0.5"`, `"logs.example.com2"`, "", ""},
		{"two dots", `"10.0.0.5"`, `"a..b"`, "data.host", "a host name"},
		{"hyphen first", `"10.0.0.5"`, `"-oProxyCommand"`, "data.host", "a host name"},
		{"no host", `"10.0.0.5"`, `""`, "data.host", "a host name"},
		{"long host", `"10.0.0.5"`, `"` + strings.Repeat("a.", 130) + `"`, "data.host", "253"},
		{"port 0", `6379`, `0`, "data.port", "0, must be a port from 1 to 65535"},
		{"port 65536", `6379`, `65536`, "data.port", "65536"},
		{"channel with a space", `"mynode-logs"`, `"a b"`, "data.channel", "without spaces"},
		{"channel with a line break", `"mynode-logs"`, `"a\r\nFLUSHALL"`, "data.channel", "printable"},
		{"long channel", `"mynode-logs"`, `"` + strings.Repeat("c", 65) + `"`, "data.channel", "64"},
		{"the default channel", `"mynode-logs"`, `""`, "", ""},
		{"no channel", `,"channel":"mynode-logs"`, ``, "", ""},
		{"a channel that isn't a text", `"mynode-logs"`, `null`, "data.channel", "null, must be a name of at most 64"},
		{"no port", `"port":6379,`, ``, "data.port", "missing"},
	})
}

func TestValidateNetwork(t *testing.T) {
	const first, key1, key2 = `data.net_resources[0]`, `"cnS4uHqHsn77zuU7eUlekbE3kl4YOycgdAihgKV+KA4="`, `"SDM+EAZHxFCAj+gJd/8QrCbYrB97AkZztNVe9GmW9XQ="`
	const subnet = `"5f4NTehmQGhwTDCtorQTFL58HfopFWDXDSR8BqRu6ddZ","subnet":"10.1.1.0/24"`
	node := strings.TrimSuffix(subnet, `"10.1.1.0/24"`)
	checkChanges(t, "network_access", []change{
		{"net_id", `"net_id":""`, `"net_id":"T6Yg6KEqXRs89"`, "", ""},
		{"unreachable peer", `"endpoint":"[2a02:1802:5e::11]:7752"`, `"endpoint":""`, "", ""},
		{"endpoint by name", `"endpoint":"[2a02:1802:5e::11]:7752"`, `"endpoint":"gw.example.com:1"`, "", ""},
		{"another net_id", `"net_id":""`, `"net_id":"x"`, "data.net_id", `"x", must be empty, or T6Yg6KEqXRs89`},
		{"no name", `"name":"net1"`, `"name":""`, "data.name", "1 to 64"},
		{"long name", `"name":"net1"`, `"name":"` + strings.Repeat("n", 65) + `"`, "data.name", "1 to 64"},
		{"a name with a line break", `"name":"net1"`, `"name":"a\nb"`, "data.name", "control characters"},
		{"/8", `"10.1.0.0/16"`, `"10.0.0.0/8"`, "data.ip_range", "a private IPv4 range of /16"},
		{"/24", `"10.1.0.0/16"`, `"10.1.0.0/24"`, "data.ip_range", "of /16"},
		{"public", `"10.1.0.0/16"`, `"8.8.0.0/16"`, "data.ip_range", "a private IPv4 range"},
		{"with a host", `"10.1.0.0/16"`, `"10.1.0.1/16"`, "data.ip_range", "nothing after the mask"},
		{"IPv6", `"10.1.0.0/16"`, `"fd00::/16"`, "data.ip_range", ""},
		{"no range", `"10.1.0.0/16"`, `"10.1.0.0"`, "data.ip_range", "an address range"},
		{"subnet elsewhere", subnet, node + `"10.2.1.0/24"`, first + ".subnet", "a part of 10.1.0.0/16, from /17 to /30"},
		{"subnet of all", subnet, node + `"10.1.0.0/16"`, first + ".subnet", "a part of"},
		{"subnet of one", subnet, node + `"10.1.1.1/32"`, first + ".subnet", "from /17 to /30"},
		{"subnets that overlap", `zQktP","subnet":"10.1.2.0/24"`, `zQktP","subnet":"10.1.1.128/25"`, "data.net_resources[1].subnet", "apart from 10.1.1.0/24"},
		{"no node", node, `"abc","subnet":`, first + ".node_id", "a node ID"},
		{"weak node", node, `"11111111111111111111111111111111","subnet":`, first + ".node_id", "an ed25519 public key"},
		{"another's node", node, `"7oGNbYWVXCpDKcqv4jzqLVEpRvGFxyYRm3vBVDcRJVBQ","subnet":`, "data.net_resources", "a resource of the node_id"},
		{"node twice", node, `"CY4wS9KZWSwxtGyJyZsGWQhK2TY1AxQTvJr64H2zQktP","subnet":`, "data.net_resources[1].node_id", "another node"},
		{"short key", key1, `"AAAA"`, first + ".wg_public_key", "32 bytes in standard base64"},
		{"loose bits in a key", key1, `"cnS4uHqHsn77zuU7eUlekbE3kl4YOycgdAihgKV+KA5="`, first + ".wg_public_key", "32 bytes"},
		{"one key for two", key1, key2, first + ".peers[0].wg_public_key", "another key than the resource"},
		{"plain private key", `"wg_private_key":"7b`, `"wg_private_key":"zz`, first + ".wg_private_key", "a text of"},
		{"port 0", `"wg_listen_port":3001`, `"wg_listen_port":0`, first + ".wg_listen_port", "0, must be a port from 1024 to 65535"},
		{"endpoint without a port", `"[2a02:1802:5e::11]:7752"`, `"gw.example.com"`, first + ".peers[0].endpoint", "HOST:PORT"},
		{"endpoint's port", `"[2a02:1802:5e::11]:7752"`, `"gw.example.com:65536"`, first + ".peers[0].endpoint", "HOST:PORT"},
		{"endpoint's host", `"[2a02:1802:5e::11]:7752"`, `"-x:1"`, first + ".peers[0].endpoint", "HOST:PORT"},
		{"no allowed_ips", `["10.1.2.0/24","100.64.1.2/32"]`, `[]`, first + ".peers[0].allowed_ips", "1 to 128"},
		{"allowed_ips", `"100.64.1.2/32"`, `"100.64.1.2/24"`, first + ".peers[0].allowed_ips[1]", "nothing after the mask"},
		{"a peer's subnet", `{"subnet":"10.1.2.0/24"`, `{"subnet":"192.168.0.0/24"`, first + ".peers[0].subnet", "a part of 10.1.0.0/16"},
		{"unknown in a peer", `{"subnet":"10.1.2.0/24"`, `{"via":"x","subnet":"10.1.2.0/24"`, first + ".peers[0].via", "unknown"},
	})
}

func TestNetworkWithoutResources(t *testing.T) {
	r := decode(t, readRecorded(t, "network").Post.Request)
	r.Data = json.RawMessage(`{"name":"n","ip_range":"10.1.0.0/16","net_resources":[]}`)
	wantField(t, "none", workload.Validate(r), "data.net_resources", "an array of 0, must be 1 to 128")
	r.Data = json.RawMessage(`{"name":"n","ip_range":"10.1.0.0/16","net_resources":null}`)
	wantField(t, "null", workload.Validate(r), "data.net_resources", "null")
}

// With several mistakes, the error always names the same one.
func TestValidateSaysTheSameEachTime(t *testing.T) {
	r := volume(t)
	r.Data = json.RawMessage(`{"size":0,"type":"x","b":1,"a":2}`)
	for range 50 {
		wantField(t, "many mistakes", workload.Validate(r), "data.a")
	}
}

func TestDataOf(t *testing.T) {
	r := volume(t)
	r.Data = json.RawMessage(`{"type":"\u0053SD", "size":1.6e1}`)
	v, err := workload.DataOf[workload.Volume](r)
	if err != nil || v != (workload.Volume{Size: 16, Type: workload.SSD}) || v.Bytes() != 16<<30 {
		t.Fatalf("%+v, %v", v, err)
	}
	_, err = workload.DataOf[workload.ZDB](r)
	wantField(t, "another type", err, "type", `"volume", must be zdb`)
	for name, text := range map[string]string{"another case": `{"SIZE":1,"type":"SSD"}`, "unknown": `{"size":1,"type":"SSD","x":1}`, "too large": `{"size":8589934592,"type":"SSD"}`, "none": ``} {
		r.Data = json.RawMessage(text)
		_, err := workload.DataOf[workload.Volume](r)
		wantError(t, name, err, "cannot accept data")
	}
	if got := (workload.Volume{Size: workload.MaxGiB}).Bytes(); got != math.MaxInt64-(1<<30)+1 {
		t.Errorf("the largest volume has %d bytes", got)
	}
	if got := (workload.ContainerCapacity{Memory: workload.MaxMiB}).Bytes(); got != math.MaxInt64-(1<<20)+1 {
		t.Errorf("the largest container has %d bytes", got)
	}
	if got := (workload.ZDB{Size: 2}).Bytes(); got != 2<<30 {
		t.Errorf("a zdb of 2 GiB has %d bytes", got)
	}
}

func TestDataOfEveryType(t *testing.T) {
	c, err := workload.DataOf[workload.Container](decode(t, readRecorded(t, "container").Post.Request))
	if err != nil || c.Env["URL"] != "http://a/?x=1&y=<2>" || c.Capacity.CPU != 2 || len(c.Mounts) != 2 || c.Network.IPs[0].String() != "10.1.1.20" {
		t.Errorf("%+v, %v", c, err)
	}
	n, err := workload.DataOf[workload.Network](decode(t, readRecorded(t, "network_access").Post.Request))
	if err != nil || len(n.Resources) != 2 || n.Resources[0].ListenPort != 3001 || len(n.Resources[0].Peers) != 2 {
		t.Errorf("%+v, %v", n, err)
	}
	z, err := workload.DataOf[workload.ZDB](decode(t, readRecorded(t, "zdb").Post.Request))
	if err != nil || z.Mode != workload.ZDBUser || z.DiskType != workload.SSD || z.Size != 5 {
		t.Errorf("%+v, %v", z, err)
	}
	k, err := workload.DataOf[workload.Kubernetes](decode(t, readRecorded(t, "kubernetes_worker").Post.Request))
	if err != nil || k.Size != 2 || k.MasterIPs[0].String() != "10.1.1.30" {
		t.Errorf("%+v, %v", k, err)
	}
	d, err := workload.DataOf[workload.Debug](decode(t, readRecorded(t, "debug").Post.Request))
	if err != nil || d != (workload.Debug{Host: "10.0.0.5", Port: 6379, Channel: "mynode-logs"}) {
		t.Errorf("%+v, %v", d, err)
	}
}
