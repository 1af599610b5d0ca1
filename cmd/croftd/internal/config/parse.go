package config

import (
	"math"
	"math/bits"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/cmd/croftd/internal/mirrors"
	"github.com/croft-edge/croft/pkg/clip"
	"github.com/croft-edge/croft/pkg/dial"
	"github.com/croft-edge/croft/pkg/sign"
)

// nowhere is the value that turns a listener off.
const nowhere = "none"

// SetPath reads an absolute path.
func SetPath(field func(*Config) *string) Setter {
	return Matching(`/.*`, func(c *Config, text string) error {
		if !filepath.IsAbs(text) {
			return errors.New("an absolute path")
		}
		*field(c) = filepath.Clean(text)
		return nil
	})
}

// SetOptionalPath reads an absolute path, or an empty text.
func SetOptionalPath(field func(*Config) *string) Setter {
	return Matching(`(/.*)?`, func(c *Config, text string) error {
		if text == "" {
			*field(c) = ""
			return nil
		}
		return SetPath(field).Parse(c, text)
	})
}

// SetPaths reads a list of absolute paths.
func SetPaths(field func(*Config) *[]string) Setter {
	return Matching(`/.*`, func(c *Config, text string) error {
		*field(c) = nil
		for _, item := range Split(text) {
			if !filepath.IsAbs(item) {
				return errors.Errorf("absolute paths; %q isn't one", item)
			}
			*field(c) = append(*field(c), filepath.Clean(item))
		}
		return nil
	})
}

func httpURL(field func(*Config) *string) Setter {
	return Matching(`([A-Za-z]+://.+)?`, func(c *Config, text string) error {
		if text != "" {
			u, err := url.Parse(text)
			if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || u.RawQuery != "" {
				return errors.New("a URL such as https://explorer.example.org, without user and query")
			}
		}
		*field(c) = strings.TrimRight(text, "/")
		return nil
	})
}

func busURL(field func(*Config) *string) Setter {
	return Matching(`([A-Za-z]+://.+)?`, func(c *Config, text string) error {
		if text != "" {
			u, err := url.Parse(text)
			unix := err == nil && u.Scheme == "unix" && filepath.IsAbs(u.Path) && u.Host == ""
			tcp := err == nil && (u.Scheme == "redis" || u.Scheme == "tcp") && u.Host != ""
			if !unix && !tcp {
				return errors.New("unix:///absolute/path or redis://[:password@]host:port")
			}
		}
		*field(c) = text
		return nil
	})
}

func busListen(field func(*Config) *string) Setter {
	return Matching(`unix:///.*|none`, func(c *Config, text string) error {
		if text == nowhere {
			*field(c) = ""
			return nil
		}
		socket, ok := strings.CutPrefix(text, "unix://")
		if !ok || !filepath.IsAbs(socket) {
			return errors.New("unix:///absolute/path, or none")
		}
		*field(c) = text
		return nil
	})
}

func listenAddress(field func(*Config) *string) Setter {
	return Matching(`.*:\+?[0-9]+|none`, func(c *Config, text string) error {
		if text == nowhere {
			*field(c) = ""
			return nil
		}
		_, port, err := net.SplitHostPort(text)
		if n, numErr := strconv.Atoi(port); err != nil || numErr != nil || n < 0 || n > 65535 {
			return errors.New("host:port with a port of 0 to 65535, or none")
		}
		*field(c) = text
		return nil
	})
}

// Nowhere is the value of DoorAddress where users don't reach the node by themselves.
const Nowhere = nowhere

// hostPort reads an external address; an empty text is kept.
func hostPort(field func(*Config) *string) Setter {
	return Matching(`(.+:\+?[0-9]+|none)?`, func(c *Config, text string) error {
		if text != "" && text != nowhere {
			host, port, err := net.SplitHostPort(text)
			if n, numErr := strconv.Atoi(port); err != nil || numErr != nil || n < 1 || n > 65535 || host == "" || len(text) > 261 {
				return errors.New("host:port with a port of 1 to 65535, none, or empty")
			}
		}
		*field(c) = text
		return nil
	})
}

// SetNumber reads a whole number.
func SetNumber(field func(*Config) *uint64) Setter {
	return Setter{Allowed: Allowed{Max: math.MaxInt64}, Parse: func(c *Config, text string) error {
		n, err := strconv.ParseUint(text, 10, 63)
		if err != nil {
			return errors.New("a whole number of 0 to 2^63-1")
		}
		*field(c) = n
		return nil
	}}
}

// SetSize reads a size in bytes.
func SetSize(field func(*Config) *uint64) Setter {
	return Matching(SizeForm, func(c *Config, text string) error {
		n, err := ParseSize(text)
		if err != nil {
			return err
		}
		*field(c) = n
		return nil
	})
}

// SizeForm is the pattern of sizes. A duration's is durationForm.
const (
	SizeForm     = `[0-9]+(B|KiB|MiB|GiB|TiB)?`
	durationForm = `\+?([0-9]*(\.[0-9]*)?(ns|us|µs|μs|ms|s|m|h))+`
)

// ParseSize reads a size in bytes: a whole number with B, KiB, MiB, GiB or TiB, or with none.
func ParseSize(text string) (uint64, error) {
	allowed := errors.New("a whole number with B, KiB, MiB, GiB or TiB, below 2^63 bytes")
	digits := strings.TrimRight(text, "BKMGTi")
	shifts := map[string]uint{"": 0, "B": 0, "KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40}
	shift, known := shifts[text[len(digits):]]
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || !known || bits.Len64(n)+int(shift) > 63 {
		return 0, allowed
	}
	return n << shift, nil
}

// SetDuration reads a duration above 0.
func SetDuration(field func(*Config) *time.Duration) Setter {
	return Matching(durationForm, func(c *Config, text string) error {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return errors.New("a duration above 0, such as 30s, 5m or 168h")
		}
		*field(c) = d
		return nil
	})
}

// SetSwitch reads true or false.
func SetSwitch(field func(*Config) *bool) Setter {
	return Setter{Allowed: Allowed{Enum: []string{"true", "false"}}, Parse: func(c *Config, text string) error {
		if text != "true" && text != "false" {
			return errors.New("true or false")
		}
		*field(c) = text == "true"
		return nil
	}}
}

// OneOf reads one of the allowed texts.
func OneOf[T ~string](field func(*Config) *T, allowed ...string) Setter {
	return Setter{Allowed: Allowed{Enum: allowed}, Parse: func(c *Config, text string) error {
		if !slices.Contains(allowed, text) {
			return errors.New("one of " + strings.Join(allowed, ", "))
		}
		*field(c) = T(text)
		return nil
	}}
}

func ids(field func(*Config) *[]string) Setter {
	return Matching(`[1-9A-HJ-NP-Za-km-z]+`, func(c *Config, text string) error {
		*field(c) = nil
		for _, item := range Split(text) {
			if _, err := sign.ParseID(item); err != nil {
				return errors.Errorf("user IDs, the base58 of 32 bytes; %q isn't one", item)
			}
			*field(c) = append(*field(c), item)
		}
		return nil
	})
}

// optionalID reads the ID of a key, or an empty text.
func optionalID(field func(*Config) *string) Setter {
	return Matching(`[1-9A-HJ-NP-Za-km-z]*`, func(c *Config, text string) error {
		if text != "" {
			if _, err := sign.VerifyingKey(text); err != nil {
				return errors.New("the ID of a key, the base58 of its 32 public bytes, or empty")
			}
		}
		*field(c) = text
		return nil
	})
}

// places reads the places of mirrors.
func places(field func(*Config) *[]mirrors.Place) Setter {
	return Matching(`(fs|s3)://.+`, func(c *Config, text string) error {
		*field(c) = nil
		for _, item := range wholeItems(text) {
			item = strings.TrimSpace(item)
			if item == "" {
				continue
			}
			p, err := mirrors.Parse(item)
			if err == nil && strings.Contains(item, ",") {
				err = errors.New(mirrors.Allowed)
			}
			if err != nil {
				return errors.WithMessagef(err, "a list of places of mirrors, %q isn't one", clip.Text(Masked(item), mostShown))
			}
			*field(c) = append(*field(c), p)
		}
		return nil
	})
}

// exceptions are parsed by the dialer, whose error names the item and the reason.
func exceptions(field func(*Config) *[]dial.Exception) Setter {
	return Parsed(func(c *Config, text string) error {
		*field(c) = nil
		for _, item := range Split(text) {
			e, err := dial.ParseException(item)
			if err != nil {
				return errors.Wrap(err, "ranges and addresses")
			}
			*field(c) = append(*field(c), e)
		}
		return nil
	})
}

// Split splits a list at commas, trims its items and drops empty ones.
func Split(text string) []string {
	var out []string
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}

// SetSizeFrom reads a size of no fewer than least bytes; shown is that minimum for people.
func SetSizeFrom(field func(*Config) *uint64, least uint64, shown string) Setter {
	return Setter{Allowed: Allowed{Pattern: SizeForm, Min: least}, Parse: func(c *Config, text string) error {
		n, err := ParseSize(text)
		if err != nil || n < least {
			return errors.Errorf("at least %s, a whole number with B, KiB, MiB, GiB or TiB", shown)
		}
		*field(c) = n
		return nil
	}}
}

// SetNumberIn reads a whole number of a range, its ends included.
func SetNumberIn(field func(*Config) *uint64, least, most uint64) Setter {
	return Setter{Allowed: Allowed{Min: least, Max: most}, Parse: func(c *Config, text string) error {
		n, err := strconv.ParseUint(text, 10, 63)
		if err != nil || n < least || n > most {
			return errors.Errorf("a whole number of %d to %d", least, most)
		}
		*field(c) = n
		return nil
	}}
}

// SetText stores the text of a setting without a field in Config; the module reads it by the setting's
// name. check, if set, validates it; its error says which values are allowed.
func SetText(name string, check func(text string) error) Setter {
	return Parsed(func(c *Config, text string) error {
		if check != nil {
			if err := check(text); err != nil {
				return err
			}
		}
		if c.Texts == nil {
			c.Texts = map[string]string{}
		}
		c.Texts[name] = text
		return nil
	})
}

// SetTextOf is SetText of one of the allowed texts.
func SetTextOf(name string, allowed ...string) Setter {
	set := OneOf(func(*Config) *string { return new(string) }, allowed...)
	text := SetText(name, func(text string) error { return set.Parse(nil, text) })
	text.Allowed = set.Allowed
	return text
}
