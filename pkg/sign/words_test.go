package sign_test

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/sign"
)

// The published vectors of BIP-39 for 256 bits.
func TestWordsAsPublished(t *testing.T) {
	for _, c := range []struct{ seed, words string }{
		{strings.Repeat("00", 32), strings.Repeat("abandon ", 23) + "art"},
		{strings.Repeat("7f", 32), strings.Repeat("legal winner thank year wave sausage worth useful ", 2) + "legal winner thank year wave sausage worth title"},
		{strings.Repeat("80", 32), strings.Repeat("letter advice cage absurd amount doctor acoustic avoid ", 2) + "letter advice cage absurd amount doctor acoustic bless"},
		{strings.Repeat("ff", 32), strings.Repeat("zoo ", 23) + "vote"},
		{"f585c11aec520db57dd353c69554b21a89b20fb0650966fa0a9d6f74fd989d8f", "void come effort suffer camp survey warrior heavy shoot primary clutch crush open amazing screen patrol group space point ten exist slush involve unfold"},
	} {
		k, err := sign.FromSeed(unhex(t, c.seed))
		if err != nil {
			t.Fatal(err)
		}
		words, err := sign.Words(k)
		if err != nil || words != c.words {
			t.Errorf("%s: words are %q, %v", c.seed, words, err)
		}
		back, err := sign.FromWords(" \n" + strings.ToUpper(strings.ReplaceAll(c.words, " ", "\n  ")) + "\t")
		if err != nil || !bytes.Equal(back.Seed(), k.Seed()) {
			t.Errorf("%s: seed is %x, %v", c.seed, back.Seed(), err)
		}
	}
}

func TestWordsBothWays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "seed")
		k, err := sign.FromSeed(seed)
		if err != nil {
			t.Fatal(err)
		}
		words, err := sign.Words(k)
		if err != nil || len(strings.Fields(words)) != sign.WordCount {
			t.Fatalf("words are %q, %v", words, err)
		}
		back, err := sign.FromWords(words)
		if err != nil || !bytes.Equal(back.Seed(), seed) {
			t.Fatalf("seed is %x, %v", back.Seed(), err)
		}
	})
}

func TestWordsThatAreRefused(t *testing.T) {
	good := strings.Repeat("abandon ", 23)
	for _, c := range []struct{ name, words, want string }{
		{"none", "", "there are 0, must be 24"},
		{"few", "abandon art", "there are 2, must be 24"},
		{"many", good + "art art", "there are 25, must be 24"},
		{"unknown", strings.Replace(good, "abandon", "abandun", 1) + "art", "word 1 isn't in"},
		{"checksum", good + "abandon", "checksum"},
		{"order", "art " + good, "checksum"},
	} {
		_, err := sign.FromWords(c.words)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error is %v, want one with %q", c.name, err, c.want)
			continue
		}
		if strings.Contains(err.Error(), "aband") {
			t.Errorf("%s: the error repeats a word: %v", c.name, err)
		}
	}
}
