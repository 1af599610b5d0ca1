package bus_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/threefoldtech/zbus"

	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/node"
)

// integers is a contract whose methods return their arguments as text.
type integers interface {
	Int8(n int8) (string, error)
	Int32(n int32) (string, error)
	Int64(n int64) (string, error)
	Uint8(n uint8) (string, error)
	Uint16(n uint16) (string, error)
	Uint64(n uint64) (string, error)
	Span(n time.Duration) (string, error)
	Float(n float64) (string, error)
	Pointer(n *uint16) (string, error)
	Second(text string, n ...uint16) (string, error)
}

type integersImpl struct{}

func (integersImpl) Int8(n int8) (string, error)          { return fmt.Sprint(n), nil }
func (integersImpl) Int32(n int32) (string, error)        { return fmt.Sprint(n), nil }
func (integersImpl) Int64(n int64) (string, error)        { return fmt.Sprint(n), nil }
func (integersImpl) Uint8(n uint8) (string, error)        { return fmt.Sprint(n), nil }
func (integersImpl) Uint16(n uint16) (string, error)      { return fmt.Sprint(n), nil }
func (integersImpl) Uint64(n uint64) (string, error)      { return fmt.Sprint(n), nil }
func (integersImpl) Span(n time.Duration) (string, error) { return fmt.Sprint(int64(n)), nil }
func (integersImpl) Float(n float64) (string, error)      { return fmt.Sprint(n), nil }
func (integersImpl) Second(_ string, n ...uint16) (string, error) {
	return fmt.Sprint(n[len(n)-1]), nil
}

func (integersImpl) Pointer(n *uint16) (string, error) {
	if n == nil {
		return "nil", nil
	}
	return fmt.Sprint(*n), nil
}

// forms are an integer as each type of Go's that can hold it: the library encodes it differently.
func forms(n int64) []any {
	forms := []any{int(n), n}
	if n == int64(int8(n)) {
		forms = append(forms, int8(n))
	}
	if n == int64(int16(n)) {
		forms = append(forms, int16(n))
	}
	if n == int64(int32(n)) {
		forms = append(forms, int32(n))
	}
	if n >= 0 {
		forms = append(forms, uint64(n), uint(n))
	}
	if n == int64(uint8(n)) {
		forms = append(forms, uint8(n))
	}
	if n == int64(uint16(n)) {
		forms = append(forms, uint16(n))
	}
	if n == int64(uint32(n)) {
		forms = append(forms, uint32(n))
	}
	return forms
}

// integerServer serves integers, to a client of the bare library and to one of this.
func integerServer(t *testing.T, w *world) []zbus.Client {
	t.Helper()
	s, err := bus.NewServer(w.carrier, module, w.options())
	if err == nil {
		err = bus.Register[integers](s, object(), integersImpl{})
	}
	if err != nil {
		t.Fatal(err)
	}
	background(t, s.Run)
	return []zbus.Client{bareClient(t, w), w.client()}
}

// An integer that the parameter holds arrives, in whatever form it is sent; another one is refused, where it arrived as another number before.
func TestIntegersBeyondTheParameterAreRefused(t *testing.T) {
	w := redisWorld(t)
	clients := integerServer(t, w)
	for method, c := range map[string]struct {
		good, bad []int64
		says      string
	}{
		"Int8":    {[]int64{-128, -33, -32, -1, 0, 127}, []int64{-129, 128, 255, math.MaxInt64}, "must be int8, -128 to 127"},
		"Int32":   {[]int64{math.MinInt32, -1, math.MaxInt32}, []int64{math.MinInt32 - 1, math.MaxInt32 + 1}, "must be int32, -2147483648 to 2147483647"},
		"Int64":   {[]int64{math.MinInt64, -1, 0, math.MaxInt64}, nil, ""},
		"Uint8":   {[]int64{0, 127, 128, 255}, []int64{-1, 256, -256, 65536}, "must be uint8, 0 to 255"},
		"Uint16":  {[]int64{0, 22, 65535}, []int64{65536, 65558, -1, math.MinInt64}, "must be uint16, 0 to 65535"},
		"Pointer": {[]int64{0, 22, 65535}, []int64{65558, -1}, "must be uint16, 0 to 65535"},
		"Uint64":  {[]int64{0, 200, math.MaxInt64}, []int64{-1, -200, math.MinInt64}, "must be uint64, 0 to 18446744073709551615"},
		"Span":    {[]int64{math.MinInt64, math.MaxInt64}, nil, ""},
		"Float":   {[]int64{-1, 0, 200}, nil, ""},
	} {
		t.Run(method, func(t *testing.T) {
			for _, n := range c.good {
				for _, form := range forms(n) {
					for _, client := range clients {
						if got, err := call[string](timeout(t, time.Minute), client, method, form); err != nil || got != fmt.Sprint(n) {
							t.Errorf("%T %d: got %s, %v", form, n, got, err)
						}
					}
				}
			}
			for _, n := range c.bad {
				for _, form := range forms(n) {
					// The bare library shows nothing of a call that wasn't made.
					if rep, err := clients[0].RequestContext(timeout(t, time.Minute), module, object(), method, form); rep != nil || err != nil {
						t.Errorf("%T %d, bare: got %+v, %v", form, n, rep, err)
					}
					_, err := call[string](timeout(t, time.Minute), clients[1], method, form)
					if want := fmt.Sprintf("argument 0: it is %d, %s", n, c.says); err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("%T %d: got %v, want %s", form, n, err, want)
					}
				}
			}
		})
	}
}

// The largest integers fit no signed parameter, a missing one is no integer, and variadic parameters are held to the same.
func TestIntegersAtTheEnds(t *testing.T) {
	w := redisWorld(t)
	client := integerServer(t, w)[1]
	if got, err := call[string](timeout(t, time.Minute), client, "Uint64", uint64(math.MaxUint64)); err != nil || got != "18446744073709551615" {
		t.Errorf("got %s, %v", got, err)
	}
	if got, err := call[string](timeout(t, time.Minute), client, "Pointer", nil); err != nil || got != "nil" {
		t.Errorf("got %s, %v", got, err)
	}
	for _, method := range []string{"Int64", "Span"} {
		_, err := call[string](timeout(t, time.Minute), client, method, uint64(math.MaxUint64))
		wantKind(t, err, node.Invalid)
	}
	_, err := call[string](timeout(t, time.Minute), client, "Second", "text", 1, 65558)
	wantKind(t, err, node.Invalid)
	if want := "argument 2: it is 65558, must be uint16, 0 to 65535"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}
