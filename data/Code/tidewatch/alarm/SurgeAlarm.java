package alarm;

import java.time.Duration;
import java.time.Instant;
import java.util.ArrayDeque;
import java.util.Deque;

/**
 * Decides when a surge is worth waking a person.
 *
 * <p>One high reading is a wave. The alarm rings only when the surge stays above the limit for the
 * whole hold time, and it does not ring again until the water has calmed down.
 */
public final class SurgeAlarm {
    private record Observation(Instant time, int surgeMm) {}

    private final int limitMm;
    private final Duration holdTime;
    private final Deque<Observation> recent = new ArrayDeque<>();
    private boolean ringing;

    /**
     * @param limitMm surge above which somebody should look, in millimetres
     * @param holdTime how long the surge must stay above the limit
     */
    public SurgeAlarm(int limitMm, Duration holdTime) {
        this.limitMm = limitMm;
        this.holdTime = holdTime;
    }

    /** Takes one observation and returns true exactly when the alarm starts to ring. */
    public boolean observe(Instant time, int surgeMm) {
        if (surgeMm < limitMm) {
            recent.clear();
            // Half the limit, so that water swaying around it does not ring all night.
            if (surgeMm < limitMm / 2) {
                ringing = false;
            }
            return false;
        }
        recent.addLast(new Observation(time, surgeMm));
        Duration lasted = Duration.between(recent.getFirst().time(), time);
        if (ringing || lasted.compareTo(holdTime) < 0) {
            return false;
        }
        ringing = true;
        return true;
    }

    /** Highest surge since the water rose above the limit, or zero when it is calm. */
    public int highestSurgeMm() {
        return recent.stream().mapToInt(Observation::surgeMm).max().orElse(0);
    }
}
