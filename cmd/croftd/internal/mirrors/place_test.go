package mirrors

import (
	"strings"
	"testing"

	"github.com/croft-edge/croft/provision/persist/fs"
	"github.com/croft-edge/croft/provision/persist/s3"
)

func TestPlacesAreRead(t *testing.T) {
	for text, want := range map[string]struct {
		fs   *fs.Settings
		s3   *s3.Settings
		keys string
	}{
		"fs:///backup/croft":              {fs: &fs.Settings{Folder: "/backup/croft"}},
		"fs:///backup/croft?mounted=true": {fs: &fs.Settings{Folder: "/backup/croft", Mounted: true}},
		"s3://a.example.org/croft":        {s3: &s3.Settings{Endpoint: "a.example.org", Bucket: "croft"}, keys: DefaultKeys},
		"s3://10.0.0.1:9000/croft/farm/7?path-style=true&tls=false&region=eu-west-1&keys=farm": {
			s3:   &s3.Settings{Endpoint: "10.0.0.1:9000", Bucket: "croft", Prefix: "farm/7", Region: "eu-west-1", PathStyle: true, Plain: true},
			keys: "farm",
		},
	} {
		p, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if p.Text != text || p.Keys != want.keys || (p.FS == nil) != (want.fs == nil) || p.FS != nil && *p.FS != *want.fs || p.S3 != nil && *p.S3 != *want.s3 {
			t.Errorf("%s is read as %+v", text, p)
		}
	}
}

func TestOtherPlacesAreRefused(t *testing.T) {
	for _, text := range []string{
		"", "backup", "/backup", "fs:backup", "fs://", "fs:///", "fs://host/backup", "fs:///a/../b", "fs:///backup?mounted=perhaps", "fs:///backup?mounted=true&mounted=false",
		"fs:///backup?region=a", "file:///backup", "s3://", "s3://host", "s3://host/A", "s3:///bucket", "s3://access:secret@host/bucket", "s3://host/bucket#a",
		"s3://host/bucket/../other", "s3://host/bucket?keys=/etc/passwd", "s3://host/bucket?keys=", "s3://host/bucket?secret=a", "s3://host:port/bucket", "s3://host/bucket/%2e%2e",
	} {
		if p, err := Parse(text); err == nil {
			t.Errorf("%q is read as %+v", text, p)
		} else if strings.Contains(err.Error(), "secret@") {
			t.Errorf("%q: its error shows a secret: %v", text, err)
		}
	}
}

// Machines that share a bucket have a prefix each, unless the operator names one.
func TestMachinesHavePrefixesOfTheirOwn(t *testing.T) {
	for text, want := range map[string]string{"s3://host/bucket": "node", "s3://host/bucket/given": "given"} {
		p, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.For("node").S3.Prefix; got != want || p.For("node").Text != text {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// Two mirrors in one place would overwrite each other's files, however they get there.
func TestWhereAPlaceIs(t *testing.T) {
	for _, c := range []struct {
		one, other string
		same       bool
	}{
		{"fs:///backup/a", "fs:///backup/a?mounted=true", true},
		{"fs:///backup/a", "fs:///backup/ab", false},
		{"s3://host/bucket", "s3://HOST:443/bucket/?keys=other&region=us-east-1&path-style=true", true},
		{"s3://host/bucket?tls=false", "s3://host:80/bucket?tls=false", true},
		{"s3://host/bucket?tls=false", "s3://host/bucket", false},
		{"s3://host/bucket", "s3://host/bucket/farm", false},
		{"s3://host/bucket", "s3://host/bucket2", false},
		{"s3://host/bucket", "s3://host2/bucket", false},
	} {
		one, err := Parse(c.one)
		if err != nil {
			t.Fatal(err)
		}
		other, err := Parse(c.other)
		if err != nil {
			t.Fatal(err)
		}
		if (one.Where() == other.Where()) != c.same {
			t.Errorf("%s and %s are %s and %s", c.one, c.other, one.Where(), other.Where())
		}
	}
}
