package sshclient_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/crypto/ssh"

	"github.com/croft-edge/croft/cmd/croft/internal/sshclient"
)

const (
	begin = "-----BEGIN SSH HOST KEY KEYS-----"
	end   = "-----END SSH HOST KEY KEYS-----"
	one   = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
	two   = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIP8BAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
	three = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4fAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
)

func keysOf(lines ...string) []string {
	var c sshclient.Console
	for _, l := range lines {
		c.Add(l)
	}
	out := []string{}
	for _, k := range c.Keys() {
		out = append(out, k.String())
	}
	return out
}

func TestKeysOnAConsole(t *testing.T) {
	for name, test := range map[string]struct {
		lines, want []string
	}{
		"nothing":                 {nil, nil},
		"a block":                 {[]string{"boot", begin, one + " root@7-1", end, "login:"}, []string{one}},
		"two keys":                {[]string{begin, one + " root@7-1", three, end}, []string{one, three}},
		"carriage returns":        {[]string{begin + "\r", one + " root@7-1\r", "\r" + three + "\r\r", end + "\r"}, []string{one, three}},
		"all in a line":           {[]string{"x\r" + begin + "\r\n" + one + "\n" + end + "\r"}, []string{one}},
		"spaces around":           {[]string{"  " + begin + " ", "\t" + one, " " + end}, []string{one}},
		"lines between":           {[]string{begin, "[    5.1] usb 1-1: new device", one, "", "croft-status: booting", three, "x", end}, []string{one, three}},
		"keys outside":            {[]string{one, begin, two, end, three}, []string{two}},
		"no end":                  {[]string{begin, one}, nil},
		"no begin":                {[]string{one, end}, nil},
		"the last counts":         {[]string{begin, one, end, "reboot", begin, two, end}, []string{two}},
		"the last complete":       {[]string{begin, one, end, "reboot", begin, two}, []string{one}},
		"a boot that was cut off": {[]string{begin, one, "reset", begin, two, end}, []string{two}},
		"empty block after":       {[]string{begin, one, end, begin, end}, []string{one}},
		"only a damaged key":      {[]string{begin, one[:40], end}, nil},
		"a damaged key beside":    {[]string{begin, one[:40], two, end}, []string{two}},
		"a marker within a line":  {[]string{"login: " + begin, one, end}, nil},
		"other markers":           {[]string{"-----BEGIN SSH HOST KEY FINGERPRINTS-----", one, end}, nil},
		"options and markers":     {[]string{begin, "@cert-authority * " + one, "* " + one, "command=\"x\" " + one, two, end}, []string{two}},
		"dss":                     {[]string{begin, "ssh-dss AAAAB3NzaC1kc3M=", end}, nil},
		"lies about the type":     {[]string{begin, "ssh-rsa " + strings.Fields(one)[1], end}, nil},
	} {
		if got := keysOf(test.lines...); strings.Join(got, "\n") != strings.Join(test.want, "\n") {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
	many := []string{begin}
	for range 1000 {
		many = append(many, one)
	}
	if got := keysOf(append(many, end)...); len(got) != 16 {
		t.Errorf("%d keys of a block count, want 16", len(got))
	}
}

// TestEveryAlgorithm: keys that OpenSSH's library makes are read, and mean the same.
func TestEveryAlgorithm(t *testing.T) {
	private := []any{}
	for _, curve := range []elliptic.Curve{elliptic.P256(), elliptic.P384(), elliptic.P521()} {
		k, err := ecdsa.GenerateKey(curve, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		private = append(private, &k.PublicKey)
	}
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range append(private, &k.PublicKey) {
		public, err := ssh.NewPublicKey(p)
		if err != nil {
			t.Fatal(err)
		}
		line := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(public)))
		got, err := sshclient.ParseHostKey(line + " a comment")
		if err != nil || got.String() != line || got.Fingerprint() != ssh.FingerprintSHA256(public) {
			t.Errorf("%s: got %s %s, %v", public.Type(), got, got.Fingerprint(), err)
		}
		blob := public.Marshal()
		for name, bad := range map[string][]byte{
			"shortened": blob[:len(blob)-1], "longer": append(append([]byte{}, blob...), 0), "empty": nil,
			"a length beyond": append([]byte{0xff, 0xff, 0xff, 0xff}, blob[4:]...),
		} {
			if got, err := sshclient.ParseHostKey(public.Type() + " " + base64.StdEncoding.EncodeToString(bad)); err == nil {
				t.Errorf("%s, %s: read as %s", public.Type(), name, got)
			}
		}
	}
}

func TestMistakenHostKeys(t *testing.T) {
	swapped := "ecdsa-sha2-nistp256 " + base64.StdEncoding.EncodeToString(fmt.Append(nil,
		"\x00\x00\x00\x13ecdsa-sha2-nistp256\x00\x00\x00\x08nistp384\x00\x00\x00\x41", strings.Repeat("x", 65)))
	for text, want := range map[string]string{
		"": "must be as in 'ssh-ed25519 AAAA…'", "AAAA": "must be as in", "ssh-foo AAAA": "the type must be ssh-ed25519", "ssh-ed25519 !": "isn't base64",
		"ssh-ed25519 AAAA": "another type", one[:len(one)-8]: "isn't whole", "ssh-rsa " + strings.Repeat("A", 5000): "too long", swapped: "its curve is another one",
		"SHA256:abc ssh-ed25519": "the type must be", "evil\x1b[2J": `"evil [2J"`,
	} {
		if k, err := sshclient.ParseHostKey(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q gives %s, %v; want %q", text, k, err, want)
		}
	}
}

// FuzzConsole: whatever a console shows, the lines for known_hosts are plain ones of accepted algorithms.
func FuzzConsole(f *testing.F) {
	f.Add(begin + "\n" + one + " root@7-1\n" + end + "\n")
	f.Add(begin + "\r\n[ 1.0] x\r\n" + one + "\r\n" + three + "\r\n" + end + "\r\n" + begin)
	f.Add(end + "\n" + begin + "\n" + begin + "\n" + two + "\n@revoked " + one + "\n" + end)
	f.Fuzz(func(t *testing.T, text string) {
		keys := keysOf(strings.Split(text, "\n")...)
		if whole := keysOf(text); strings.Join(whole, ",") != strings.Join(keys, ",") {
			t.Errorf("it is read as %q in lines, and as %q in one", keys, whole)
		}
		for _, k := range keys {
			if strings.Count(k, " ") != 1 || strings.ContainsFunc(k, func(r rune) bool { return r > unicode.MaxASCII || unicode.IsControl(r) }) {
				t.Errorf("%q isn't a key", k)
			}
			if again, err := sshclient.ParseHostKey(k); err != nil || again.String() != k {
				t.Errorf("%q is read again as %q, %v", k, again, err)
			}
			if !strings.Contains(text, strings.Fields(k)[1]) {
				t.Errorf("%q isn't in the text", k)
			}
		}
	})
}
