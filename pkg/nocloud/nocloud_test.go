package nocloud_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/fielderror"
	"github.com/croft-edge/croft/pkg/nocloud"
)

const secret = "hunter2-is-the-password"

func example() nocloud.Config {
	return nocloud.Config{
		InstanceID: "vm-1",
		Hostname:   "web-1.example",
		Interfaces: []nocloud.Interface{{
			MAC:       net.HardwareAddr{0x52, 0x54, 0, 0x12, 0x34, 0x56},
			Addresses: []netip.Prefix{netip.MustParsePrefix("10.1.2.3/24"), netip.MustParsePrefix("fd00::3/64")},
			Gateways:  []netip.Addr{netip.MustParseAddr("10.1.2.1"), netip.MustParseAddr("fe80::1")},
			DNS:       []netip.Addr{netip.MustParseAddr("10.1.2.1"), netip.MustParseAddr("2001:db8::53")},
			Search:    []string{"example.org"},
			MTU:       1400,
		}},
		SSHKeys:  []string{"ssh-ed25519 AAAA me: here # there"},
		UserData: []byte("#cloud-config\npassword: " + secret + "\n"),
		Files:    []nocloud.File{{Path: "/etc/motd", Mode: 0o644, Content: []byte("hi\n" + secret)}},
	}
}

func write(t testing.TB, c nocloud.Config) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := nocloud.Write(&out, c); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestDocuments holds the documents as cloud-init documents them.
func TestDocuments(t *testing.T) {
	got, err := example().Documents()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		nocloud.MetaData: `instance-id: "vm-1"
local-hostname: "web-1.example"
public-keys:
    - "ssh-ed25519 AAAA me: here # there"
`,
		nocloud.UserData: "#cloud-config\npassword: " + secret + "\n",
		nocloud.NetworkConfig: `version: 2
ethernets:
    eth0:
        match:
            macaddress: "52:54:00:12:34:56"
        set-name: "eth0"
        dhcp4: false
        dhcp6: false
        mtu: 1400
        addresses:
            - "10.1.2.3/24"
            - "fd00::3/64"
        routes:
            - to: "0.0.0.0/0"
              via: "10.1.2.1"
            - to: "::/0"
              via: "fe80::1"
        nameservers:
            addresses:
                - "10.1.2.1"
                - "2001:db8::53"
            search:
                - "example.org"
`,
		nocloud.VendorData: `#cloud-config
write_files:
    - path: "/etc/motd"
      permissions: "0644"
      encoding: "b64"
      content: "aGkKaHVudGVyMi1pcy10aGUtcGFzc3dvcmQ="
`,
	}
	if len(got) != len(want) {
		t.Errorf("there are %d documents, want %d", len(got), len(want))
	}
	for name, text := range want {
		if string(got[name]) != text {
			t.Errorf("%s is\n%s\nwant\n%s", name, got[name], text)
		}
	}
}

// TestSmallest holds that only what NoCloud requires is on the disk of the smallest config.
func TestSmallest(t *testing.T) {
	files, err := nocloud.Read(bytes.NewReader(write(t, nocloud.Config{InstanceID: "i", Hostname: "h"})))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 2 || len(files[nocloud.UserData]) != 0 || string(files[nocloud.MetaData]) != "instance-id: \"i\"\nlocal-hostname: \"h\"\n" {
		t.Errorf("the files are %q", files)
	}
}

func TestRefusedFields(t *testing.T) {
	long := strings.Repeat("a", 64)
	for name, c := range map[string]struct {
		spoil func(c *nocloud.Config)
		field string
	}{
		"no instance":             {func(c *nocloud.Config) { c.InstanceID = "" }, "InstanceID"},
		"an instance's path":      {func(c *nocloud.Config) { c.InstanceID = "../x" }, "InstanceID"},
		"a long instance":         {func(c *nocloud.Config) { c.InstanceID = strings.Repeat("a", 129) }, "InstanceID"},
		"no hostname":             {func(c *nocloud.Config) { c.Hostname = "" }, "Hostname"},
		"a hostname's line break": {func(c *nocloud.Config) { c.Hostname = "a\nb" }, "Hostname"},
		"a hostname's colon":      {func(c *nocloud.Config) { c.Hostname = "a: b" }, "Hostname"},
		"a long label":            {func(c *nocloud.Config) { c.Hostname = long }, "Hostname"},
		"a long hostname":         {func(c *nocloud.Config) { c.Hostname = "b." + long[:63] }, "Hostname"},
		"a hyphen first":          {func(c *nocloud.Config) { c.Hostname = "-a" }, "Hostname"},
		"a key's line break":      {func(c *nocloud.Config) { c.SSHKeys[0] = "ssh-ed25519 A\nroot" }, "SSHKeys[0]"},
		"a key's line separator":  {func(c *nocloud.Config) { c.SSHKeys[0] = "ssh-ed25519 A\u2028root" }, "SSHKeys[0]"},
		"a key that isn't text":   {func(c *nocloud.Config) { c.SSHKeys[0] = "ssh-ed25519 \xff" }, "SSHKeys[0]"},
		"an empty key":            {func(c *nocloud.Config) { c.SSHKeys[0] = "" }, "SSHKeys[0]"},
		"a long key":              {func(c *nocloud.Config) { c.SSHKeys[0] = strings.Repeat("a", nocloud.MaxKey+1) }, "SSHKeys[0]"},
		"many keys":               {func(c *nocloud.Config) { c.SSHKeys = make([]string, nocloud.MaxItems+1) }, "SSHKeys"},
		"keys that are too long together": {func(c *nocloud.Config) {
			c.SSHKeys = nil
			for range 17 {
				c.SSHKeys = append(c.SSHKeys, strings.Repeat("a", nocloud.MaxKey))
			}
		}, "meta-data"},
		"long user data":      {func(c *nocloud.Config) { c.UserData = make([]byte, nocloud.MaxDocument+1) }, "user-data"},
		"a long file":         {func(c *nocloud.Config) { c.Files[0].Content = make([]byte, nocloud.MaxDocument) }, "vendor-data"},
		"a relative path":     {func(c *nocloud.Config) { c.Files[0].Path = "etc/motd" }, "Files[0].Path"},
		"a path up":           {func(c *nocloud.Config) { c.Files[0].Path = "/../etc" }, "Files[0].Path"},
		"a path twice":        {func(c *nocloud.Config) { c.Files = append(c.Files, c.Files[0]) }, "Files[1].Path"},
		"a file with setuid":  {func(c *nocloud.Config) { c.Files[0].Mode = 0o4755 }, "Files[0].Mode"},
		"a short MAC":         {func(c *nocloud.Config) { c.Interfaces[0].MAC = net.HardwareAddr{2, 1} }, "Interfaces[0].MAC"},
		"a multicast MAC":     {func(c *nocloud.Config) { c.Interfaces[0].MAC[0] = 1 }, "Interfaces[0].MAC"},
		"a MAC twice":         {func(c *nocloud.Config) { c.Interfaces = append(c.Interfaces, c.Interfaces[0]) }, "Interfaces[1].MAC"},
		"no prefix":           {func(c *nocloud.Config) { c.Interfaces[0].Addresses[0] = netip.Prefix{} }, "Interfaces[0].Addresses[0]"},
		"an address twice":    {func(c *nocloud.Config) { c.Interfaces[0].Addresses[1] = c.Interfaces[0].Addresses[0] }, "Interfaces[0].Addresses[1]"},
		"a gateway elsewhere": {func(c *nocloud.Config) { c.Interfaces[0].Gateways[0] = netip.MustParseAddr("10.9.0.1") }, "Interfaces[0].Gateways[0]"},
		"two gateways": {func(c *nocloud.Config) {
			c.Interfaces[0].Gateways = append(c.Interfaces[0].Gateways, netip.MustParseAddr("10.1.2.9"))
		}, "Interfaces[0].Gateways[2]"},
		"itself as gateway": {func(c *nocloud.Config) { c.Interfaces[0].Gateways[0] = netip.MustParseAddr("10.1.2.3") }, "Interfaces[0].Gateways[0]"},
		"a zone":            {func(c *nocloud.Config) { c.Interfaces[0].DNS[0] = netip.MustParseAddr("fe80::1%eth0") }, "Interfaces[0].DNS[0]"},
		"a bad domain":      {func(c *nocloud.Config) { c.Interfaces[0].Search[0] = "a b" }, "Interfaces[0].Search[0]"},
		"a small MTU":       {func(c *nocloud.Config) { c.Interfaces[0].MTU = 1279 }, "Interfaces[0].MTU"},
		"a negative MTU":    {func(c *nocloud.Config) { c.Interfaces[0].MTU = -1 }, "Interfaces[0].MTU"},
	} {
		t.Run(name, func(t *testing.T) {
			spoiled := example()
			c.spoil(&spoiled)
			var out bytes.Buffer
			err := nocloud.Write(&out, spoiled)
			var field *fielderror.Error
			if !errors.As(err, &field) || field.Field != c.field {
				t.Errorf("the error is %v, want one of field %s", err, c.field)
			}
			if out.Len() > 0 {
				t.Error("something is written")
			}
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("the error shows a secret: %v", err)
			}
		})
	}
}

func TestSecretsAreNotPrinted(t *testing.T) {
	c := example()
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(format+format, c, c.Files[0]); strings.Contains(text, secret) || strings.Contains(text, "104 117 110") {
			t.Errorf("%s shows a secret: %s", format, text)
		}
	}
	files, err := c.Documents()
	if err != nil {
		t.Fatal(err)
	}
	files[nocloud.VendorData] = []byte("write_files: " + secret)
	if _, err := nocloud.Decode(files); err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("a broken document's error is %v", err)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("no space") }

func TestWriterFails(t *testing.T) {
	if err := nocloud.Write(failing{}, example()); err == nil || !strings.Contains(err.Error(), "no space") {
		t.Errorf("the error is %v", err)
	}
}

// TestLayout holds what ECMA-119 requires and Read doesn't look at: both byte orders are the same, the volume's size,
// the path tables, and the order of the names.
func TestLayout(t *testing.T) {
	disk := write(t, example())
	if len(disk)%2048 != 0 || len(disk) > nocloud.MaxImage {
		t.Errorf("the disk has %d bytes", len(disk))
	}
	descriptor := disk[16*2048:]
	if label := string(descriptor[40:72]); label != "cidata"+strings.Repeat(" ", 26) {
		t.Errorf("the label is %q", label)
	}
	if n := binary.LittleEndian.Uint32(descriptor[80:]); int(n) != len(disk)/2048 || n != binary.BigEndian.Uint32(descriptor[84:]) {
		t.Errorf("the volume has %d sectors", n)
	}
	if string(disk[17*2048:17*2048+7]) != "\xffCD001\x01" {
		t.Error("there is no terminator")
	}
	root := binary.LittleEndian.Uint32(descriptor[158:])
	little, big := binary.LittleEndian.Uint32(descriptor[140:]), binary.BigEndian.Uint32(descriptor[148:])
	if binary.LittleEndian.Uint32(disk[little*2048+2:]) != root || binary.BigEndian.Uint32(disk[big*2048+2:]) != root {
		t.Error("the path tables don't have the root")
	}
	var last string
	for records := disk[root*2048:]; records[0] > 0; records = records[records[0]:] {
		name := string(records[33 : 33+records[32]])
		if name <= last && last != "" {
			t.Errorf("%q comes after %q", name, last)
		}
		last = name
		if binary.LittleEndian.Uint32(records[2:]) != binary.BigEndian.Uint32(records[6:]) || binary.LittleEndian.Uint32(records[10:]) != binary.BigEndian.Uint32(records[14:]) {
			t.Errorf("%q has different numbers in both byte orders", name)
		}
		if records[0]%2 != 0 {
			t.Errorf("%q has a record of an odd length", name)
		}
	}
}

// TestRoundTrip holds that each valid config is read as it was written, and that its disk is always the same.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := anyConfig(t)
		var one, two bytes.Buffer
		if err := nocloud.Write(&one, c); err != nil {
			t.Fatal(err)
		}
		if err := nocloud.Write(&two, c); err != nil || !bytes.Equal(one.Bytes(), two.Bytes()) {
			t.Fatalf("the second disk differs, or %v", err)
		}
		checkRoundTrip(t, one.Bytes(), c)
	})
}

type fataler interface{ Fatalf(string, ...any) }

func checkRoundTrip(t fataler, disk []byte, want nocloud.Config) {
	files, err := nocloud.Read(bytes.NewReader(disk))
	if err != nil {
		t.Fatalf("%v", err)
	}
	for name, content := range files {
		if name == nocloud.UserData {
			continue
		}
		var any map[string]any
		if err := yaml.Unmarshal(content, &any); err != nil {
			t.Fatalf("%s isn't YAML: %v", name, err)
		}
	}
	got, err := nocloud.Decode(files)
	if err != nil {
		t.Fatalf("%v", err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("it is read as %q %q %q %v %q, written as %q %q %q %v %q", got.InstanceID, got.Hostname, got.SSHKeys, got.Interfaces, got.UserData,
			want.InstanceID, want.Hostname, want.SSHKeys, want.Interfaces, want.UserData)
	}
}

func anyConfig(t *rapid.T) nocloud.Config {
	label := rapid.StringMatching(`[A-Za-z0-9]([A-Za-z0-9-]{0,10}[A-Za-z0-9])?`)
	c := nocloud.Config{
		InstanceID: rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9._-]{0,127}`).Draw(t, "instance"),
		Hostname:   rapid.OneOf(label, rapid.SampledFrom([]string{"no", "null", "0x1f", "1e3", "007", "true.yes"})).Draw(t, "hostname"),
		UserData:   notEmpty(rapid.SliceOfN(rapid.Byte(), 0, 5000).Draw(t, "user data")),
		SSHKeys:    notEmpty(rapid.SliceOfN(rapid.OneOf(rapid.StringMatching(`\PC{1,60}`).Filter(valid), rapid.SampledFrom([]string{"- a: *b", "'", `"\`, "%x !!y", " "})), 0, 5).Draw(t, "keys")),
	}
	for i := range rapid.IntRange(0, 12).Draw(t, "interfaces") {
		third := byte(rapid.IntRange(0, 255).Draw(t, "third"))
		n := nocloud.Interface{
			MAC:    net.HardwareAddr{0x52, 0x54, 0, byte(i), third, 0x56},
			MTU:    rapid.SampledFrom([]int{0, 1280, 1500, 65535}).Draw(t, "MTU"),
			DNS:    notEmpty(rapid.SliceOfN(rapid.SampledFrom([]netip.Addr{netip.MustParseAddr("1.1.1.1"), netip.MustParseAddr("::1")}), 0, 3).Draw(t, "DNS")),
			Search: notEmpty(rapid.SliceOfN(label, 0, 3).Draw(t, "search")),
		}
		if rapid.Bool().Draw(t, "IPv4") {
			n.Addresses = append(n.Addresses, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i), third, 2}), rapid.IntRange(8, 30).Draw(t, "bits")))
			n.Gateways = append(n.Gateways, netip.AddrFrom4([4]byte{10, byte(i), third, 1}))
		}
		if rapid.Bool().Draw(t, "IPv6") {
			n.Addresses = append(n.Addresses, netip.PrefixFrom(netip.AddrFrom16([16]byte{0xfd, third, 15: 2}), 64))
			n.Gateways = append(n.Gateways, netip.MustParseAddr("fe80::1"))
		}
		c.Interfaces = append(c.Interfaces, n)
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "files") {
		c.Files = append(c.Files, nocloud.File{
			Path: fmt.Sprintf("/dir: %d/'\"", i), Mode: 0o640, Content: notEmpty(rapid.SliceOfN(rapid.Byte(), 0, 3000).Draw(t, "content")),
		})
	}
	return c
}

func valid(s string) bool {
	c := nocloud.Config{InstanceID: "i", Hostname: "h", SSHKeys: []string{s}}
	return c.Validate() == nil
}

// notEmpty makes an empty list nil, as it is read.
func notEmpty[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return list
}

// FuzzWrite holds for hostile values: they are refused, or come out as they went in.
func FuzzWrite(f *testing.F) {
	f.Add("vm-1", "web", "ssh-ed25519 AAAA", "/etc/motd", []byte("#!/bin/sh\n"))
	f.Add("null", "no", "a\nb: c", "/a/../b", []byte{})
	f.Add("1_000", "0x1f", "*a &b !!c {", "/\u0085", []byte("\x00"))
	f.Fuzz(func(t *testing.T, id, hostname, key, path string, data []byte) {
		c := nocloud.Config{
			InstanceID: id, Hostname: hostname, SSHKeys: []string{key}, UserData: notEmpty(data),
			Files: []nocloud.File{{Path: path, Mode: 0o600, Content: notEmpty(data)}},
		}
		var out bytes.Buffer
		if err := nocloud.Write(&out, c); err != nil {
			var field *fielderror.Error
			if !errors.As(err, &field) {
				t.Fatalf("the error names no field: %v", err)
			}
			return
		}
		checkRoundTrip(t, out.Bytes(), c)
	})
}

// FuzzRead holds that no disk makes Read panic or take much memory, nor Decode accept what Write refuses.
func FuzzRead(f *testing.F) {
	f.Add(write(f, example()))
	f.Add(write(f, nocloud.Config{InstanceID: "i", Hostname: "h"})[:40<<10])
	f.Fuzz(func(t *testing.T, disk []byte) {
		files, err := nocloud.Read(bytes.NewReader(disk))
		if err != nil {
			return
		}
		if c, err := nocloud.Decode(files); err == nil && c.Validate() != nil {
			t.Errorf("a config is read that is invalid: %v", c.Validate())
		}
	})
}
