package transport

import (
	"bytes"
	"strings"
	"testing"
)

func TestCheckFrame(t *testing.T) {
	nested := func(n int) []byte { return append(bytes.Repeat([]byte{0x91}, n), 0xc0) }
	for _, test := range []struct {
		name  string
		frame []byte
		want  string
	}{
		{"nil", []byte{0xc0}, ""},
		{"fixint", []byte{0x7f}, ""},
		{"negative fixint", []byte{0xe0}, ""},
		{"uint64", []byte("\xcf12345678"), ""},
		{"int64", []byte("\xd312345678"), ""},
		{"float", []byte("\xca1234"), ""},
		{"double", []byte("\xcb12345678"), ""},
		{"fixstr", []byte("\xa3abc"), ""},
		{"str 8", []byte("\xd9\x03abc"), ""},
		{"str 16", []byte("\xda\x00\x03abc"), ""},
		{"str 32", []byte("\xdb\x00\x00\x00\x03abc"), ""},
		{"bin 8", []byte("\xc4\x03abc"), ""},
		{"bin 32", []byte("\xc6\x00\x00\x00\x03abc"), ""},
		{"fixext 1", []byte("\xd4\x05a"), ""},
		{"fixext 16", []byte("\xd8\x05aaaaaaaabbbbbbbb"), ""},
		{"ext 8", []byte("\xc7\x02\x05ab"), ""},
		{"ext 16", []byte("\xc8\x00\x02\x05ab"), ""},
		{"array 16", []byte("\xdc\x00\x02\xc2\xc3"), ""},
		{"map 16", []byte("\xde\x00\x01\xa1a\xc0"), ""},
		{"map 32", []byte("\xdf\x00\x00\x00\x01\xa1a\xc0"), ""},
		{"32 deep", nested(MaxDepth), ""},
		{"33 deep", nested(MaxDepth + 1), "nests deeper than 32"},
		{"a million deep", nested(1 << 20), "nests deeper than 32"},
		{"maps 33 deep", append(bytes.Repeat([]byte{0x81, 0xa0}, MaxDepth+1), 0xc0), "nests deeper than 32"},
		{"empty", nil, "ends in the middle"},
		{"reserved code", []byte{0xc1}, "0xc1"},
		{"two values", []byte{0xc0, 0xc0}, "1 bytes after its value"},
		{"short string", []byte("\xa3ab"), "ends in the middle"},
		{"short length", []byte("\xdb\x00\x00"), "ends in the middle"},
		{"endless bin", []byte("\xc6\xff\xff\xff\xff"), "ends in the middle"},
		{"endless ext", []byte("\xc9\xff\xff\xff\xff"), "ends in the middle"},
		{"endless array", []byte("\xdd\xff\xff\xff\xff"), "ends before its 4294967295 items"},
		{"endless map", []byte("\xdf\xff\xff\xff\xff"), "ends before its 8589934590 items"},
		{"too many values", append([]byte{0xdd, 0, 4, 0, 1}, bytes.Repeat([]byte{0xc0}, MaxValues+1)...), "more than 262144 values"},
		{"too large", make([]byte, MaxFrame+1), "at most 4194304"},
	} {
		err := CheckFrame(test.frame)
		if (test.want == "") != (err == nil) || (err != nil && !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: got %v, want %q", test.name, err, test.want)
		}
	}
}
