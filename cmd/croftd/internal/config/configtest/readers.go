// Package configtest helps tests to find out who reads which setting. It is for tests alone.
package configtest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/pkg/sign"
)

// Defaults is the configuration of a node without any setting.
func Defaults(t testing.TB, settings []config.Setting) config.Config {
	t.Helper()
	var c config.Config
	for _, s := range settings {
		if err := s.Set.Parse(&c, s.Default); err != nil && !strings.Contains(s.Default, "{") {
			t.Fatalf("the default of %s: %v", s.Name, err)
		}
	}
	return c
}

// Others are allowed texts of a setting that have another effect than its default.
func Others(t testing.TB, s config.Setting) []string {
	t.Helper()
	user, err := sign.Generate()
	if err != nil {
		t.Fatal(err)
	}
	texts := slices.Concat(s.Set.Allowed.Enum, []string{
		"77", "7", "77MiB", "77GiB", "77m", "true", "/some/where", "https://other.example.org", "unix:///other/bus.sock", "127.0.0.1:7777",
		"10.7.0.0/16", "2001:db8:7::/48", "192.0.2.77", "7700-7777", user.ID(), "read_only", "SSD:/dev/other", "other.example.org", "oci://other.example.org/image:7",
		"none", "fs:///some/where", "other", "zdb",
	})
	var was config.Config
	_ = s.Set.Parse(&was, s.Default)
	var out []string
	for _, text := range texts {
		var is config.Config
		if s.Set.Parse(&is, text) == nil && Show(is) != Show(was) {
			out = append(out, text)
		}
	}
	if len(out) == 0 {
		t.Fatalf("%s: none of the texts of this test is allowed: add one", s.Name)
	}
	return out
}

// Readers holds that settings name the module of that name as reader if, and only if, read gives another
// result when they are changed. Those that need a restart of the process may be read besides.
func Readers(t *testing.T, settings []config.Setting, name string, read func(c config.Config) any) {
	t.Helper()
	base := Defaults(t, settings)
	before := Show(read(base))
	for _, s := range settings {
		reads := false
		for _, text := range Others(t, s) {
			c := base
			c.Texts = maps.Clone(base.Texts)
			if err := s.Set.Parse(&c, text); err != nil {
				t.Fatal(err)
			}
			reads = reads || Show(read(c)) != before
		}
		declared := slices.Contains(s.ReadBy, name)
		switch {
		case reads && !declared && !slices.Contains(s.ReadBy, config.Process):
			t.Errorf("module %s reads %s, whose ReadBy is %v", name, s.Name, s.ReadBy)
		case !reads && declared:
			t.Errorf("module %s doesn't read %s, whose ReadBy is %v", name, s.Name, s.ReadBy)
		}
	}
}

// Show prints a value with all that it points to, but for functions, channels and random sources.
func Show(v any) string {
	var out strings.Builder
	show(&out, reflect.ValueOf(v), map[uintptr]bool{})
	return out.String()
}

func show(out *strings.Builder, v reflect.Value, seen map[uintptr]bool) {
	switch v.Kind() {
	case reflect.Invalid, reflect.Func, reflect.Chan, reflect.UnsafePointer:
	case reflect.Pointer:
		if v.IsNil() || seen[v.Pointer()] || v.Type() == reflect.TypeFor[*rand.Rand]() {
			return
		}
		seen[v.Pointer()] = true
		show(out, v.Elem(), seen)
	case reflect.Interface:
		show(out, v.Elem(), seen)
	case reflect.Struct:
		for i := range v.NumField() {
			fmt.Fprintf(out, "%s:", v.Type().Field(i).Name)
			show(out, v.Field(i), seen)
			out.WriteString(" ")
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			show(out, v.Index(i), seen)
			out.WriteString(",")
		}
	case reflect.Map:
		keys := map[string]reflect.Value{}
		for _, k := range v.MapKeys() {
			keys[fmt.Sprint(k)] = v.MapIndex(k)
		}
		for _, k := range slices.Sorted(maps.Keys(keys)) {
			fmt.Fprintf(out, "%s:", k)
			show(out, keys[k], seen)
			out.WriteString(" ")
		}
	default:
		fmt.Fprint(out, v)
	}
}
