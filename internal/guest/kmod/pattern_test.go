package kmod

import "testing"

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"", "", true},
		{"*", "", true},
		{"*", "anything", true},
		{"a", "a", true},
		{"a", "ab", false},
		{"ab", "a", false},
		{"a?c", "abc", true},
		{"a?c", "ac", false},
		{"a*c", "ac", true},
		{"a*c", "abcbc", true},
		{"a*c", "abcb", false},
		{"*a*b*", "xxaxxbxx", true},
		{"*a*b*", "xxbxxaxx", false},
		{"pci:v00008086d00001533sv*sd*bc*sc*i*", "pci:v00008086d00001533sv00001AF4sd00001100bc02sc00i00", true},
		{"pci:v00008086d00001533sv*sd*bc*sc*i*", "pci:v00008086d00001534sv00001AF4sd00001100bc02sc00i00", false},
		{"usb:v04B4p[0-9A-F]*", "usb:v04B4pA1", true},
		{"usb:v04B4p[0-9]*", "usb:v04B4pA1", false},
		{"x[!0-9]", "xa", true},
		{"x[!0-9]", "x5", false},
		{"x[^0-9]", "x5", false},
		{"x[]]", "x]", true},
		{"x[", "x[", true},
		{"x[!", "x[!", true},
		{"x[a-]", "x-", true},
		{"acpi*:PNP0C0A:*", "acpi:PNP0C0A:", true},
		{"dmi*:bd*:pnStandard*", "dmi:bvnSeaBIOS:bd04/01/2014:pnStandardPC", true},
	} {
		if got := match(c.pattern, c.text); got != c.want {
			t.Errorf("%q matches %q: %v, must be %v", c.pattern, c.text, got, c.want)
		}
	}
}

func TestHyphensAreUnderscores(t *testing.T) {
	for name, want := range map[string]string{"fs-btrfs": "fs_btrfs", "a-[0-9]-b": "a_[0-9]_b", "plain": "plain"} {
		if got := plain(name); got != want {
			t.Errorf("%q is compared as %q, must be %q", name, got, want)
		}
	}
	if got := Name("kernel/net/nf-tables.ko.xz"); got != "nf_tables" {
		t.Errorf("the module's name is %q", got)
	}
}

// FuzzMatch holds that no pattern makes match look beyond its ends, and that * around a text finds it.
func FuzzMatch(f *testing.F) {
	f.Add("a[!b-c]*?", "abc")
	f.Add("[]", "]")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		match(pattern, text)
		if !match("*"+plainText(text)+"*", "x"+plainText(text)+"y") {
			t.Errorf("%q isn't found in itself", text)
		}
	})
}

// plainText is a text without what means something in a pattern.
func plainText(text string) string {
	out := []byte{}
	for i := range len(text) {
		if c := text[i]; c != '*' && c != '?' && c != '[' {
			out = append(out, c)
		}
	}
	return string(out)
}
