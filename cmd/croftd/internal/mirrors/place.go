package mirrors

import (
	"net"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/provision/persist"
	"github.com/croft-edge/croft/provision/persist/fs"
	"github.com/croft-edge/croft/provision/persist/s3"
	"github.com/croft-edge/croft/provision/persist/secret"
)

// Allowed says how a place is written.
const Allowed = "fs:///PATH, or s3://HOST[:PORT]/BUCKET[/PREFIX]; after a ?, fs takes mounted=true; s3 takes region=NAME, path-style=true, tls=false and keys=NAME"

// DefaultKeys begins the names of the secrets of a place that names no others.
const DefaultKeys = "s3"

// Place says where a mirror is: either in a folder or in a bucket.
type Place struct {
	// Text is the place as the settings have it.
	Text string
	FS   *fs.Settings
	S3   *s3.Settings
	// Keys begins the names of the secrets of an S3 server: KEYS-access and KEYS-secret.
	Keys string
}

// Parse reads a place. Its errors say what is allowed.
func Parse(text string) (Place, error) {
	u, err := url.Parse(text)
	if err == nil && u.Scheme == s3.Kind && strings.Contains(text, "@") {
		return Place{}, errors.New(Allowed) // a key with a slash, whose parts no error may show
	}
	if err != nil || u.User != nil || u.Fragment != "" || u.Opaque != "" || u.RawPath != "" {
		return Place{}, errors.New(Allowed)
	}
	p, options := Place{Text: text}, u.Query()
	switch u.Scheme {
	case fs.Kind:
		err = p.folder(u, options)
	case s3.Kind:
		err = p.bucket(u, options)
	default:
		err = errors.New(Allowed)
	}
	if err != nil {
		return Place{}, err
	}
	for name, values := range options {
		if strings.Join(values, "") == "" {
			return Place{}, errors.Errorf("%s; what has no value isn't one of these", Allowed) // it may be a key
		}
		return Place{}, errors.Errorf("%s; %q isn't one of these, or is given twice", Allowed, name)
	}
	return p, nil
}

func (p *Place) folder(u *url.URL, options url.Values) error {
	p.FS = &fs.Settings{Folder: u.Path}
	if err := take(options, "mounted", &p.FS.Mounted); err != nil {
		return err
	}
	if u.Host != "" {
		return errors.New(Allowed)
	}
	return p.FS.Check()
}

func (p *Place) bucket(u *url.URL, options url.Values) error {
	bucket, prefix, _ := strings.Cut(strings.Trim(u.Path, "/"), "/")
	secure := true
	p.S3, p.Keys = &s3.Settings{Endpoint: u.Host, Bucket: bucket, Prefix: prefix}, DefaultKeys
	for _, err := range []error{
		take(options, "path-style", &p.S3.PathStyle), take(options, "tls", &secure), take(options, "region", &p.S3.Region), take(options, "keys", &p.Keys),
	} {
		if err != nil {
			return err
		}
	}
	p.S3.Plain = !secure
	if err := secret.CheckName(p.Keys); err != nil {
		return err
	}
	return p.S3.Check()
}

// take reads an option, a text or a switch, and removes it from those that are left.
func take[T string | bool](options url.Values, name string, to *T) error {
	values := options[name]
	if len(values) != 1 {
		return nil // one that is given twice is left, and refused
	}
	delete(options, name)
	switch to := any(to).(type) {
	case *string:
		*to = values[0]
	case *bool:
		on, err := strconv.ParseBool(values[0])
		if err != nil {
			return errors.Errorf("%s; %s is %q, must be true or false", Allowed, name, values[0])
		}
		*to = on
	}
	return nil
}

// Known reports whether a place may have an option of that name.
func Known(option string) bool {
	return slices.Contains([]string{"mounted", "region", "path-style", "tls", "keys"}, option)
}

// Where is the place without the ways in which it is accessed: two mirrors with the same one would overwrite each other's files.
func (p Place) Where() string {
	if p.FS != nil {
		return fs.Kind + "://" + p.FS.Folder
	}
	endpoint, port := strings.ToLower(p.S3.Endpoint), "443"
	if p.S3.Plain {
		port = "80"
	}
	if _, _, err := net.SplitHostPort(endpoint); err != nil {
		endpoint = net.JoinHostPort(endpoint, port)
	}
	return s3.Kind + "://" + endpoint + "/" + p.S3.Bucket + "/" + p.S3.Prefix
}

// instance is the name of the place's instance.
func (p Place) instance() (string, error) {
	if p.FS != nil {
		return p.FS.Instance()
	}
	return p.S3.Instance()
}

// For is the place of one machine: in a bucket, machines have a prefix each, which is their ID unless the operator names another.
func (p Place) For(machine persist.MachineID) Place {
	if p.S3 != nil && p.S3.Prefix == "" {
		settings := *p.S3
		settings.Prefix = path.Clean(string(machine))
		p.S3 = &settings
	}
	return p
}

// open makes the place's provider, of one instance. It touches nothing before Initialize; existing is whether that only reads.
func (p Place) open(secrets secret.Provider, existing bool) (persist.Provider, error) {
	if p.FS != nil {
		return fs.New(fs.Config{Instances: []fs.Settings{*p.FS}, Existing: existing})
	}
	return s3.New(s3.Config{Instances: []s3.Instance{{Settings: *p.S3, Keys: p.Keys}}, Secrets: secrets, Existing: existing})
}

// closed closes the idle connections of a provider that has some.
func closed(p persist.Provider) {
	if c, ok := p.(interface{ Close() }); ok {
		c.Close()
	}
}
