/* Removes single spikes from pressure samples with a running median of five.
 *
 * A gull landing on the stilling well makes one wild sample; a wave makes several.
 * The median throws away the first and keeps the second.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define WINDOW 5

/* Sorts a handful of samples in place; insertion sort wins at this size. */
static void sort_samples(int32_t *samples, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        int32_t held = samples[i];
        size_t j = i;
        while (j > 0 && samples[j - 1] > held) {
            samples[j] = samples[j - 1];
            j--;
        }
        samples[j] = held;
    }
}

/* Median of the WINDOW samples that end at `newest` in a ring buffer. */
int32_t median_of_five(const int32_t ring[WINDOW])
{
    int32_t sorted[WINDOW];
    for (size_t i = 0; i < WINDOW; i++) {
        sorted[i] = ring[i];
    }
    sort_samples(sorted, WINDOW);
    return sorted[WINDOW / 2];
}

/* Pressure in pascal to water depth in millimetres, for sea water of 1025 kg/m3. */
int32_t pressure_to_depth_mm(int32_t pascal, int32_t air_pascal)
{
    return (int32_t)((int64_t)(pascal - air_pascal) * 1000 / (1025 * 981 / 100));
}

int main(void)
{
    int32_t ring[WINDOW] = {0};
    size_t seen = 0;
    int pascal;
    while (scanf("%d", &pascal) == 1) {
        ring[seen % WINDOW] = pressure_to_depth_mm(pascal, 101325);
        seen++;
        if (seen >= WINDOW) {
            printf("%d\n", (int)median_of_five(ring));
        }
    }
    return 0;
}
