package workload_test

import (
	"bytes"
	"crypto/ecdh"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/workload"
)

// The first resource of network_access has 10.1.1.0/24, and two peers:
// 10.1.2.0/24 with 100.64.1.2/32, and 10.1.3.0/24 with 100.64.1.3/32.
const (
	resource0 = "data.net_resources[0]"
	peer0     = resource0 + ".peers[0]"
	peer1     = resource0 + ".peers[1]"
)

func TestNetworkPorts(t *testing.T) {
	const port = `"wg_listen_port":3001`
	var changes []change
	for _, good := range []string{"1024", "3001", "65535"} {
		changes = append(changes, change{"port " + good, port, `"wg_listen_port":` + good, "", ""})
	}
	for _, bad := range []string{"-1", "0", "1", "51", "1023", "65536", "1024.5", `"3001"`, "null"} {
		changes = append(changes, change{"port " + bad, port, `"wg_listen_port":` + bad, resource0 + ".wg_listen_port", bad + ", must be a port from 1024 to 65535"})
	}
	checkChanges(t, "network_access", changes)
}

func TestNetworkSubnets(t *testing.T) {
	const second, peer = `zQktP","subnet":"10.1.2.0/24"`, `{"subnet":"10.1.2.0/24"`
	checkChanges(t, "network_access", []change{
		{"of another node, a part", second, `zQktP","subnet":"10.1.1.64/26"`, "data.net_resources[1].subnet", `"10.1.1.64/26", must be apart from 10.1.1.0/24 of another resource`},
		{"of another node, around", second, `zQktP","subnet":"10.1.0.0/17"`, "data.net_resources[1].subnet", "apart from 10.1.1.0/24"},
		{"a peer's, the same", peer, `{"subnet":"10.1.1.0/24"`, peer0 + ".subnet", `"10.1.1.0/24", must be apart from the resource's own subnet, 10.1.1.0/24`},
		{"a peer's, a part", peer, `{"subnet":"10.1.1.128/25"`, peer0 + ".subnet", "apart from the resource's own"},
		{"a peer's, around", peer, `{"subnet":"10.1.0.0/17"`, peer0 + ".subnet", "apart from the resource's own"},
		{"two peers' that overlap", peer, `{"subnet":"10.1.3.0/25"`, peer1 + ".subnet", `"10.1.3.0/24", must be apart from 10.1.3.0/25 of another peer`},
		{"IPv6", peer, `{"subnet":"fd00::/64"`, peer0 + ".subnet", "a part of 10.1.0.0/16"},
		{"IPv4 as IPv6", peer, `{"subnet":"::ffff:10.1.4.0/120"`, peer0 + ".subnet", "an address range such as"},
		{"a resource's, IPv6", second, `zQktP","subnet":"fd00::/24"`, "data.net_resources[1].subnet", "a part of 10.1.0.0/16"},
		{"a resource's, IPv4 as IPv6", second, `zQktP","subnet":"::ffff:10.1.2.0/120"`, "data.net_resources[1].subnet", "an address range such as"},
		{"ip_range, IPv6", `"ip_range":"10.1.0.0/16"`, `"ip_range":"fd00::/16"`, "data.ip_range", "a private IPv4 range of /16"},
		{"ip_range, IPv4 as IPv6", `"ip_range":"10.1.0.0/16"`, `"ip_range":"::ffff:10.1.0.0/112"`, "data.ip_range", "an address range such as"},
		{"ip_range of carriers", `"ip_range":"10.1.0.0/16"`, `"ip_range":"100.64.0.0/16"`, "data.ip_range", "a private IPv4 range of /16"},
		{"ip_range with zeros", `"ip_range":"10.1.0.0/16"`, `"ip_range":"010.1.0.0/16"`, "data.ip_range", "an address range such as"},
	})
}

func TestNetworkAllowedIPs(t *testing.T) {
	r := decode(t, readRecorded(t, "network_access").Post.Request)
	prefix6 := workload.NetworkPrefix6(r.User, "net1")
	beside := func(p string) string {
		return workload.Counterpart6(prefix6, netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix(p)).String()
	}
	const ips = `["10.1.2.0/24","100.64.1.2/32"]`
	const own, others = "the resource's own, or wider than it", "another range than other peers have"
	var changes []change
	for _, c := range []struct{ what, ip, want string }{
		{"all", "0.0.0.0/0", ""},
		{"all of IPv6", "::/0", ""},
		{"half of all", "0.0.0.0/1", ""},
		{"the network", "10.1.0.0/16", ""},
		{"what is around the subnet", "10.1.0.0/23", ""},
		{"all private ones", "10.0.0.0/8", ""},
		{"the network in IPv6", prefix6.String(), ""},
		{"elsewhere", "192.168.7.0/24", ""},
		{"a part of another peer's", "10.1.3.128/25", ""},
		{"another subnet in IPv6", beside("10.1.7.0/24"), ""},
		{"its own twice", "10.1.2.0/24", ""},
		{"its own in IPv6 too", beside("10.1.2.0/24"), ""},

		{"the resource's subnet", "10.1.1.0/24", own},
		{"a part of it", "10.1.1.128/25", own},
		{"one of its members", "10.1.1.5/32", own},
		{"the subnet in IPv6", beside("10.1.1.0/24"), own},
		{"a part of it in IPv6", beside("10.1.1.128/25"), own},
		{"the resource's tunnel address", "100.64.1.1/32", own},
		{"another peer's", "10.1.3.0/24", others},
		{"another peer's in IPv6", beside("10.1.3.0/24"), others},
		{"another peer's tunnel address", "100.64.1.3/32", others},

		{"IPv4 as IPv6", "::ffff:10.1.2.0/120", "an address range such as"},
		{"all of IPv4 as IPv6", "::ffff:0.0.0.0/96", "an address range such as"},
		{"with a host", "10.1.2.1/24", "nothing after the mask"},
		{"no mask", "10.1.2.0", "an address range such as"},
		{"33 bits", "10.1.2.0/33", "an address range such as"},
		{"zeros first", "10.1.02.0/24", "an address range such as"},
		{"nothing", "", "an address range such as"},
	} {
		field := ""
		switch {
		case c.want == others:
			field = peer1 + ".allowed_ips["
		case c.want != "":
			field = peer0 + ".allowed_ips[2]"
		}
		if c.want == others {
			// The error names the second peer, at its range.
			field += map[bool]string{true: "1]", false: "0]"}[strings.HasPrefix(c.ip, "100.")]
		}
		changes = append(changes, change{c.what, ips, `["10.1.2.0/24","100.64.1.2/32",` + fmt.Sprintf("%q", c.ip) + `]`, field, c.want})
	}
	checkChanges(t, "network_access", changes)
}

func TestNetworkEndpoints(t *testing.T) {
	const recorded = `"endpoint":"[2a02:1802:5e::11]:7752"`
	const garbage, host = "HOST:PORT", "the address of one host and a port, or empty"
	var changes []change
	for _, c := range []struct{ endpoint, want string }{
		{"", ""},
		{"192.0.2.1:1", ""},
		{"10.0.0.7:65535", ""},
		{"127.0.0.1:7752", ""}, // the node's policy refuses it, except in tests
		{"[fd00::1]:7752", ""},
		{"gw-1.example.com:7752", ""},
		{"gw.example.com.:7752", ""},

		{"garbage", garbage},
		{":7752", garbage},
		{"[]:7752", garbage},
		{".:7752", garbage},
		{"192.0.2.1", garbage},
		{"192.0.2.1:", garbage},
		{"192.0.2.1:0", garbage},
		{"192.0.2.1:00", garbage},
		{"192.0.2.1:65536", garbage},
		{"192.0.2.1:-1", garbage},
		{"192.0.2.1:http", garbage},
		{"2a02::1:7752", garbage},
		{"[fe80::1%eth0]:7752", garbage},
		{"[192.0.2.1:7752", garbage},
		{"http://x:1", garbage},
		{"x y:1", garbage},
		{"x;reboot:1", garbage},
		{"-o:1", garbage},
		{"3221225985:1", garbage},
		{"0xc0000201:1", garbage},
		{"192.2:1", garbage},
		{"0300.0.2.1:1", garbage},
		{strings.Repeat("a.", 125) + "example:1", garbage},
		{strings.Repeat("a", 1<<18) + ":1", garbage},

		{"0.0.0.0:7752", host},
		{"[::]:7752", host},
		{"[::ffff:0.0.0.0]:7752", host},
		{"224.0.0.1:7752", host},
		{"239.255.0.1:7752", host},
		{"[ff02::1]:7752", host},
		{"255.255.255.255:7752", host},
	} {
		field := peer0 + ".endpoint"
		if c.want == "" {
			field = ""
		}
		changes = append(changes, change{"endpoint " + c.endpoint, recorded, fmt.Sprintf(`"endpoint":%q`, c.endpoint), field, c.want})
	}
	checkChanges(t, "network_access", changes)
}

func TestNetworkNames(t *testing.T) {
	const name, want = `"name":"net1"`, "a name of 1 to 64 characters without control characters"
	checkChanges(t, "network", []change{
		{"another script", name, `"name":"réseau ☃"`, "", ""},
		{"64 characters", name, `"name":"` + strings.Repeat("☃", 64) + `"`, "", ""},
		{"65 characters", name, `"name":"` + strings.Repeat("☃", 65) + `"`, "data.name", want},
		{"empty", name, `"name":""`, "data.name", want},
		{"zero", name, `"name":"a\u0000"`, "data.name", want},
		{"escape", name, `"name":"\u001b[2J"`, "data.name", want},
		{"delete", name, `"name":"a\u007f"`, "data.name", want},
		{"next line", name, `"name":"a\u0085"`, "data.name", want},
		{"the other escape", name, `"name":"\u009b2J"`, "data.name", want},
		{"500 KB", name, `"name":"` + strings.Repeat("n", 500_000) + `"`, "data.name", want},
	})
	r := decode(t, readRecorded(t, "network").Post.Request)
	r.Data = bytes.Replace(r.Data, []byte(name), []byte(`"name":"`+strings.Repeat("n", 1<<20)+`"`), 1)
	wantError(t, "1 MB", workload.Validate(r), "cannot read data: it has 10", "at most 524288 are allowed")
}

func TestNetworkOfManyPeers(t *testing.T) {
	r := decode(t, readRecorded(t, "network").Post.Request)
	n, err := workload.DataOf[workload.Network](r)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		peers       int
		field, want string
	}{
		{128, "", ""},
		{129, resource0 + ".peers", "an array of 129, must be at most 128 peers"},
		{3_000, resource0 + ".peers", "an array of 3000, must be at most 128 peers"},
		{10_000, "", "at most 524288 are allowed"},
	} {
		n.Resources[0].Peers = nil
		for i := range c.peers {
			key := [32]byte{9, byte(i), byte(i >> 8)}
			low := 0x200 + 4*(i%10_000)
			subnet := fmt.Sprintf("10.1.%d.%d/30", low>>8&0xff, low&0xff)
			n.Resources[0].Peers = append(n.Resources[0].Peers, workload.WireGuardPeer{Subnet: subnet, PublicKey: base64.StdEncoding.EncodeToString(key[:]), AllowedIPs: []string{subnet}})
		}
		text, err := json.Marshal(n)
		if err != nil {
			t.Fatal(err)
		}
		r.Data = text
		err = workload.Validate(r)
		switch {
		case c.field != "":
			wantField(t, fmt.Sprint(c.peers, " peers"), err, c.field, c.want)
		case c.want != "":
			wantError(t, fmt.Sprint(c.peers, " peers"), err, c.want)
		case err != nil:
			t.Errorf("%d peers: %v", c.peers, err)
		}
	}
}

// p is 2^255-19, little-endian; fieldElement is p and n.
func fieldElement(n int) []byte {
	out := bytes.Repeat([]byte{0xff}, 32)
	out[0], out[31] = byte(0xed+n), 0x7f
	return out
}

// lowOrderPoints are those of RFC 7748's X25519 whose shared secret is 0, in
// each of their encodings, without the highest bit.
func lowOrderPoints() [][]byte {
	small := func(n byte) []byte { return append([]byte{n}, make([]byte, 31)...) }
	decoded := func(text string) []byte {
		out, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			panic(err)
		}
		return out
	}
	return [][]byte{
		small(0), small(1), fieldElement(-1), fieldElement(0), fieldElement(1),
		decoded("4Ot6fDtBuK4WVuP68Z/EatoJjeucMrH9hmIFFl9JuAA="), decoded("X5yVvKNQjCSx0LFVnIPvWwREXMRYHI6G2CJO3dCfEVc="),
	}
}

func TestInvalidKeys(t *testing.T) {
	secret, err := ecdh.X25519().NewPrivateKey(bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	const own, peers = `"cnS4uHqHsn77zuU7eUlekbE3kl4YOycgdAihgKV+KA4=","wg_listen_port"`, `{"subnet":"10.1.2.0/24","wg_public_key":"SDM+EAZHxFCAj+gJd/8QrCbYrB97AkZztNVe9GmW9XQ="`
	body := func(key []byte) string { return base64.StdEncoding.EncodeToString(key) }
	var changes []change
	for _, point := range lowOrderPoints() {
		for _, high := range []byte{0, 0x80} {
			key := bytes.Clone(point)
			key[31] |= high
			public, err := ecdh.X25519().NewPublicKey(key)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := secret.ECDH(public); err == nil {
				t.Fatalf("%x isn't of low order: the table is wrong", key)
			}
			changes = append(changes,
				change{fmt.Sprintf("%x as its own", key), own, `"` + body(key) + `","wg_listen_port"`, resource0 + ".wg_public_key", "a point of low order"},
				change{fmt.Sprintf("%x as a peer's", key), peers, `{"subnet":"10.1.2.0/24","wg_public_key":"` + body(key) + `"`, peer0 + ".wg_public_key", "a point of low order"})
		}
	}
	for _, key := range [][]byte{fieldElement(-2), fieldElement(2), append([]byte{2}, make([]byte, 31)...), append([]byte{9}, make([]byte, 31)...)} {
		changes = append(changes, change{fmt.Sprintf("%x", key), own, `"` + body(key) + `","wg_listen_port"`, "", ""})
	}
	for what, text := range map[string]string{
		"31 bytes": body(make([]byte, 31)), "33 bytes": body(make([]byte, 33)), "hex": strings.Repeat("ab", 32), "nothing": "",
		"URL's base64": strings.Repeat("_", 43) + "=", "no padding": strings.Repeat("A", 43), "a line break": strings.Repeat("A", 43) + `\n`,
	} {
		changes = append(changes, change{what, own, `"` + text + `","wg_listen_port"`, resource0 + ".wg_public_key", "32 bytes in standard base64"})
	}
	const key1 = "cnS4uHqHsn77zuU7eUlekbE3kl4YOycgdAihgKV+KA4="
	changes = append(changes, change{"the resource's own as a peer's", peers, `{"subnet":"10.1.2.0/24","wg_public_key":"` + key1 + `"`, peer0 + ".wg_public_key", "another key than the resource and its other peers have"})
	checkChanges(t, "network_access", changes)
}

// A key is refused when X25519 refuses it, and not otherwise.
func TestKeysAreJudgedAsX25519Does(t *testing.T) {
	good := decode(t, readRecorded(t, "network").Post.Request)
	secret, err := ecdh.X25519().NewPrivateKey(bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		near := rapid.Custom(func(t *rapid.T) []byte {
			key := bytes.Clone(rapid.SampledFrom(lowOrderPoints()).Draw(t, "point"))
			key[rapid.IntRange(0, 31).Draw(t, "at")] ^= rapid.SampledFrom([]byte{0, 0, 1, 2, 0x40, 0x80}).Draw(t, "bit")
			return key
		})
		key := rapid.OneOf(near, rapid.SliceOfN(rapid.Byte(), 32, 32)).Draw(t, "key")
		public, err := ecdh.X25519().NewPublicKey(key)
		if err != nil {
			t.Fatal(err)
		}
		_, weak := secret.ECDH(public)
		r := *good
		r.Data = bytes.Replace(r.Data, []byte(`"wg_public_key":"cnS4uHqHsn77zuU7eUlekbE3kl4YOycgdAihgKV+KA4=","wg_listen_port"`), []byte(`"wg_public_key":"`+base64.StdEncoding.EncodeToString(key)+`","wg_listen_port"`), 1)
		if bytes.Equal(r.Data, good.Data) {
			t.Fatal("the recorded data has another key")
		}
		var field *workload.FieldError
		if err := workload.Validate(&r); (weak != nil) != errors.As(err, &field) {
			t.Fatalf("%x: %v, X25519 says %v", key, err, weak)
		}
	})
}
